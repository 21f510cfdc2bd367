/// \file vector.cuh
/// Wide accesses: how many elements may move together, and whether the addresses allow it.
#pragma once

#include <cute/tensor_impl.hpp>

#include <tilefoundry/runtime/cuda/dtype.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {
namespace detail {

/// Bytes of the widest access.
inline constexpr int wide_bytes = 16;

/// `N` elements that are read or written as one access.
template <class T, int N>
struct alignas(sizeof(T) * N) Pack {
  T value[N];
};

CUTE_HOST_DEVICE constexpr int largest_power_of_two_dividing(int n) { return n & -n; }

/// Flat shapes and strides of a static layout as plain arrays.
template <class Layout>
struct FlatModes {
  using Flat = decltype(cute::flatten(cute::make_layout(Layout{})));
  static constexpr int rank = Flat::rank;
  int extent[rank];
  int step[rank];

  CUTE_HOST_DEVICE constexpr FlatModes() : extent{}, step{} { fill(cute::make_seq<rank>{}); }

 private:
  template <int... I>
  CUTE_HOST_DEVICE constexpr void fill(cute::seq<I...>) {
    ((extent[I] = int(cute::get<I>(Flat{}.shape())), step[I] = int(cute::get<I>(Flat{}.stride()))), ...);
  }
};

/// Whether two static layouts have equal flat shapes, so that their modes correspond one to one.
template <class A, class B>
CUTE_HOST_DEVICE constexpr bool modes_correspond() {
  if constexpr (FlatModes<A>::rank != FlatModes<B>::rank) {
    return false;
  } else {
    constexpr FlatModes<A> a{};
    constexpr FlatModes<B> b{};
    for (int i = 0; i < FlatModes<A>::rank; ++i)
      if (a.extent[i] != b.extent[i]) return false;
    return true;
  }
}

/// Modes of `Guide` by ascending stride, those that do not move last.
template <class Guide>
struct StrideOrder {
  static constexpr int rank = FlatModes<Guide>::rank;
  int mode[rank];

  CUTE_HOST_DEVICE constexpr StrideOrder() : mode{} {
    constexpr FlatModes<Guide> g{};
    for (int i = 0; i < rank; ++i) mode[i] = i;
    for (int i = 1; i < rank; ++i)
      for (int j = i; j > 0 && key(g, mode[j]) < key(g, mode[j - 1]); --j) {
        const int swap = mode[j];
        mode[j] = mode[j - 1];
        mode[j - 1] = swap;
      }
  }

 private:
  static CUTE_HOST_DEVICE constexpr int key(FlatModes<Guide> const& g, int i) {
    return g.extent[i] == 1 || g.step[i] == 0 ? 0x7fffffff : g.step[i];
  }
};

template <class Guide, class Layout, int... I>
CUTE_HOST_DEVICE constexpr auto in_stride_order(Layout const& layout, cute::seq<I...>) {
  constexpr StrideOrder<Guide> order{};
  auto const flat = cute::flatten(cute::make_layout(layout));
  return cute::coalesce(cute::make_layout(cute::layout<order.mode[I]>(flat)...));
}

/// `layout` enumerated so that `Guide`'s contiguous elements follow one another; the same renumbering for every
/// operand of an op. Layouts whose modes do not correspond to the guide's keep CuTe's order.
template <bool Reorder, class Guide, class Layout>
CUTE_HOST_DEVICE constexpr auto enumerate_like(Layout const& layout) {
  if constexpr (Reorder) {
    return in_stride_order<Guide>(layout, cute::make_seq<FlatModes<Guide>::rank>{});
  } else {
    return cute::coalesce(layout);
  }
}

/// Length of the run of stride 1 that a coalesced static layout starts with.
template <class Layout>
CUTE_HOST_DEVICE constexpr int leading_run() {
  if constexpr (cute::is_static<Layout>::value) {
    constexpr FlatModes<Layout> m{};
    return m.step[0] == 1 || m.extent[0] == 1 ? m.extent[0] : 1;
  } else {
    return 1;
  }
}

CUTE_HOST_DEVICE constexpr int largest_of(int a) { return a; }
template <class... Rest>
CUTE_HOST_DEVICE constexpr int largest_of(int a, int b, Rest... rest) {
  return largest_of(a > b ? a : b, rest...);
}

/// Elements of one access: a power of two that divides every run, within 16 bytes of the widest element.
/// `runs` is the bitwise or of the run lengths: its lowest set bit divides them all.
CUTE_HOST_DEVICE constexpr int pack_length(int runs, int element_bytes) {
  int n = largest_power_of_two_dividing(runs);
  while (n > 1 && n * element_bytes > wide_bytes) n /= 2;
  return n;
}

/// Whether every offset at which a run of N starts is a multiple of N: then the base address decides.
template <int N, class Layout>
CUTE_HOST_DEVICE constexpr bool runs_stay_aligned() {
  if constexpr (N > 1) {
    constexpr FlatModes<Layout> m{};
    for (int i = 0; i < FlatModes<Layout>::rank; ++i)
      if (m.extent[i] > 1 && m.step[i] != 1 && m.step[i] % N != 0) return false;
  }
  return true;
}

/// Whether an address is a multiple of `Bytes`.
template <int Bytes, class T>
CUTE_HOST_DEVICE bool is_aligned(T const* p) {
  return (reinterpret_cast<uintptr_t>(p) & (Bytes - 1)) == 0;
}

template <class Tensor>
CUTE_HOST_DEVICE auto raw(Tensor const& t) {
  return cute::raw_pointer_cast(t.data());
}

/// Pack of the N elements of `t` from number `i` on.
template <int N, class Tensor>
CUTE_HOST_DEVICE auto load_pack(Tensor const& t, int i) {
  using T = typename Tensor::value_type;
  return *reinterpret_cast<Pack<T, N> const*>(raw(t) + t.layout()(i));
}

template <int N, class Tensor, class T>
CUTE_HOST_DEVICE void store_pack(Tensor const& t, int i, Pack<T, N> const& pack) {
  *reinterpret_cast<Pack<T, N>*>(const_cast<T*>(raw(t)) + t.layout()(i)) = pack;
}

}  // namespace detail
}  // namespace tilefoundry
