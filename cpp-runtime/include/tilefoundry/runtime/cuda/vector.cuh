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
struct alignas(sizeof(T) * N <= 16 ? sizeof(T) * N : 16) Pack {
  T value[N];
};

/// Read for the last time, and write, a pack that no other thread of the kernel accesses: it shall not push out of the
/// caches what is read again. What is read once only comes faster by plain loads.
template <class P>
CUTE_HOST_DEVICE P load_streaming(P const* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(P) == 16) {
    P out;
    *reinterpret_cast<uint4*>(&out) = __ldcs(reinterpret_cast<uint4 const*>(from));
    return out;
  }
#endif
  return *from;
}
/// Read a pack of any size. `Here`: nobody reads it again, and it is read here and not where it is used, so that reads
/// that follow one another are under way together, which the compiler would give up for a few registers.
template <bool Here, class P>
CUTE_HOST_DEVICE P load_pack(P const* from) {
#if defined(__CUDA_ARCH__)
  P out;
  if constexpr (!Here) {
    out = *from;
  } else if constexpr (sizeof(P) % 16 == 0) {
    CUTE_UNROLL
    for (int i = 0; i < int(sizeof(P) / 16); ++i)
      reinterpret_cast<uint4*>(&out)[i] = __ldcs(reinterpret_cast<uint4 const*>(from) + i);
  } else if constexpr (sizeof(P) == 8) {
    *reinterpret_cast<uint2*>(&out) = __ldcs(reinterpret_cast<uint2 const*>(from));
  } else if constexpr (sizeof(P) == 4) {
    *reinterpret_cast<unsigned*>(&out) = __ldcs(reinterpret_cast<unsigned const*>(from));
  } else if constexpr (sizeof(P) == 2) {
    *reinterpret_cast<unsigned short*>(&out) = __ldcs(reinterpret_cast<unsigned short const*>(from));
  } else {
    out = *from;
  }
  return out;
#else
  return *from;
#endif
}
template <class P>
CUTE_HOST_DEVICE void store_streaming(P* to, P const& pack) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(P) == 16) {
    __stcs(reinterpret_cast<uint4*>(to), *reinterpret_cast<uint4 const*>(&pack));
    return;
  }
#endif
  *to = pack;
}

/// Read a pack here and not behind the next barrier, where the compiler would put a plain read that is used only there.
template <class P>
CUTE_HOST_DEVICE P load_early(P const* from) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(P) == 16) {
    P out;
    *reinterpret_cast<uint4*>(&out) = __ldca(reinterpret_cast<uint4 const*>(from));
    return out;
  }
#endif
  return *from;
}

/// Keep a pack of small elements in its registers as it is: what was computed from it before is computed again, which
/// takes fewer registers than holding it.
template <class T, int N>
CUTE_HOST_DEVICE void stay_packed(Pack<T, N>& pack) {
#if defined(__CUDA_ARCH__)
  if constexpr (sizeof(T) < 4 && sizeof(pack) == 16) {
    uint4& words = reinterpret_cast<uint4&>(pack);
    asm volatile("" : "+r"(words.x), "+r"(words.y), "+r"(words.z), "+r"(words.w));
  }
#endif
}

/// `N` 8-bit integers that are read as one access and stay in words, as packs of single bytes would not.
template <class T, int N>
struct alignas(N <= 16 ? N : 16) BytePack {
  static_assert(sizeof(T) == 1, "BytePack: its elements are single bytes");
  struct Bytes {
    unsigned word[N / 4];
    CUTE_HOST_DEVICE T operator[](int i) const { return static_cast<T>(word[i / 4] >> (i % 4 * 8) & 0xffu); }
  } value;
};
template <class T>
struct BytePack<T, 1> {
  T value[1];
};
template <class T>
struct alignas(2) BytePack<T, 2> {
  T value[2];
};

/// Element `i` of a pack, a constant place, as a float: its byte becomes the end of a float's mantissa, which leaves the
/// chip's few converters alone.
template <class T, int N>
CUTE_HOST_DEVICE float byte_as_float(BytePack<T, N> const& pack, int i) {
#if defined(__CUDA_ARCH__)
  if constexpr (N >= 4) {
    constexpr bool is_signed = T(-1) < T(0);
    const unsigned word = pack.value.word[i / 4] ^ (is_signed ? 0x80808080u : 0u);
    const unsigned bits = __byte_perm(word, 0x4b000000u, 0x7440u + static_cast<unsigned>(i % 4));
    return __uint_as_float(bits) - (is_signed ? 8388736.0f : 8388608.0f);
  }
#endif
  return static_cast<float>(pack.value[i]);
}

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

/// Run of stride 1 that a tensor of static, coalesced layout starts with; 0 where it is not accessed in packs and so
/// constrains nothing: registers, repeated elements, strided memory.
template <class Tensor>
CUTE_HOST_DEVICE constexpr int packed_run() {
  constexpr FlatModes<typename Tensor::layout_type> m{};
  return !cute::is_rmem<Tensor>::value && m.step[0] == 1 && m.extent[0] > 1 ? m.extent[0] : 0;
}

/// Bytes of one element where it bounds the length of a pack, else 0.
template <class Tensor>
CUTE_HOST_DEVICE constexpr int packed_bytes() {
  return packed_run<Tensor>() > 0 ? int(sizeof(typename Tensor::value_type)) : 0;
}

/// The layout whose contiguous elements the loop follows: the first tensor that lies in memory, else the first.
template <class First, class... Rest>
CUTE_HOST_DEVICE constexpr auto guide_layout() {
  if constexpr (!cute::is_rmem<First>::value || sizeof...(Rest) == 0) {
    return typename First::layout_type{};
  } else {
    return guide_layout<Rest...>();
  }
}

CUTE_HOST_DEVICE constexpr int largest_of(int a) { return a; }
template <class... Rest>
CUTE_HOST_DEVICE constexpr int largest_of(int a, int b, Rest... rest) {
  return largest_of(a > b ? a : b, rest...);
}

/// Elements of one access: a power of two that divides every run, within 16 bytes of the widest element.
/// `runs` is the bitwise or of the run lengths (its lowest set bit divides them all), 0 where nothing is packed.
CUTE_HOST_DEVICE constexpr int pack_length(int runs, int element_bytes) {
  int n = runs == 0 ? 1 : largest_power_of_two_dividing(runs);
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

/// Whether packs of N of `t` may be accessed at its address; always where it is not accessed in packs. Registers
/// are never asked for their address, which would force them into memory.
template <int N, class Tensor>
CUTE_HOST_DEVICE bool pack_aligned(Tensor const& t) {
  if constexpr (N > 1 && packed_run<Tensor>() > 0) {
    return is_aligned<N * sizeof(typename Tensor::value_type)>(raw(t));
  } else {
    return true;
  }
}

/// The N elements of `t` from number `i` on, as one access where `t` is accessed in packs.
template <int N, class Tensor>
CUTE_HOST_DEVICE auto load_pack(Tensor const& t, int i) {
  using T = stdx::remove_cv_t<typename Tensor::value_type>;
  if constexpr (N > 1 && packed_run<Tensor>() > 0) {
    return *reinterpret_cast<Pack<T, N> const*>(raw(t) + t.layout()(i));
  } else {
    Pack<T, N> pack;
    CUTE_UNROLL
    for (int j = 0; j < N; ++j) pack.value[j] = raw(t)[t.layout()(i + j)];
    return pack;
  }
}

template <int N, class Tensor, class T>
CUTE_HOST_DEVICE void store_pack(Tensor const& t, int i, Pack<T, N> const& pack) {
  auto* const to = const_cast<T*>(raw(t));
  if constexpr (N > 1 && packed_run<Tensor>() > 0) {
    *reinterpret_cast<Pack<T, N>*>(to + t.layout()(i)) = pack;
  } else {
    CUTE_UNROLL
    for (int j = 0; j < N; ++j) to[t.layout()(i + j)] = pack.value[j];
  }
}

/// Length of the packs of a loop over these tensors: 1 where their layouts forbid any.
template <class... Tensors>
CUTE_HOST_DEVICE constexpr int common_pack(int size) {
  const int n = pack_length((packed_run<Tensors>() | ...), largest_of(1, packed_bytes<Tensors>()...));
  return size % n == 0 ? n : 1;
}

/// Whether all runs of N stay aligned in every tensor that is accessed in packs.
template <int N, class... Tensors>
CUTE_HOST_DEVICE constexpr bool packs_stay_aligned() {
  return (runs_stay_aligned<(packed_run<Tensors>() > 0 ? N : 1), typename Tensors::layout_type>() && ...);
}

}  // namespace detail
}  // namespace tilefoundry
