/// \file elementwise.cuh
/// The loop under every elementwise op: packs of 16 bytes where layouts and addresses allow, scalars elsewhere.
#pragma once

#include <tilefoundry/runtime/cuda/local.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {
namespace ops {
namespace elementwise_impl {

namespace core = ::tilefoundry::detail;

/// `src` seen with dst's extents: modes of extent 1 and single elements repeat with stride 0.
template <class Src, class Dst>
__device__ auto broadcast_view(Src const& src, Dst const& dst) {
  auto const from = cute::flatten(cute::make_layout(src.layout()));
  auto const to = cute::flatten(cute::make_layout(dst.layout()));
  if constexpr (cute::is_constant<1, decltype(cute::size(from))>::value) {
    auto const zeros = cute::transform(to.shape(), [](auto const&) { return cute::Int<0>{}; });
    return cute::make_tensor(src.data(), cute::make_layout(to.shape(), zeros));
  } else if constexpr (decltype(from)::rank == decltype(to)::rank) {
    auto const stride = cute::transform(from.shape(), from.stride(), [](auto const& extent, auto const& step) {
      if constexpr (cute::is_constant<1, decltype(extent)>::value) {
        return cute::Int<0>{};
      } else {
        return step;
      }
    });
    auto const shape = cute::transform(from.shape(), to.shape(), [](auto const& a, auto const& b) {
      if constexpr (cute::is_constant<1, decltype(a)>::value) {
        return b;
      } else {
        return a;
      }
    });
    return cute::make_tensor(src.data(), cute::make_layout(shape, stride));
  } else {
    return cute::make_tensor(src.data(), src.layout());
  }
}

/// Runs of an input that is read as packs; 0 where it is read element by element and so constrains nothing.
template <class Layout>
__device__ constexpr int packed_run() {
  constexpr core::FlatModes<Layout> m{};
  return m.step[0] == 1 && m.extent[0] > 1 ? m.extent[0] : 0;
}

/// One input: `get<N>(i)` gives elements i .. i+N-1 as computed values.
template <class Tensor>
struct Input {
  using T = stdx::remove_cv_t<typename Tensor::value_type>;
  using layout_type = typename Tensor::layout_type;
  Tensor tensor;

  template <int N>
  __device__ bool aligned() const {
    if constexpr (packed_run<layout_type>() > 0) {
      return core::is_aligned<N * sizeof(T)>(core::raw(tensor));
    } else {
      return true;
    }
  }
  template <int N>
  __device__ core::Pack<T, N> get(int i) const {
    if constexpr (N > 1 && packed_run<layout_type>() > 0) {
      return core::load_pack<N>(tensor, i);
    } else {
      core::Pack<T, N> out;
      CUTE_UNROLL
      for (int j = 0; j < N; ++j) out.value[j] = core::raw(tensor)[tensor.layout()(i + j)];
      return out;
    }
  }
};

/// Apply `op` to N elements from number i on. Every input is read before the output is written.
template <int N, class Op, class Dst, class... In>
__device__ void apply(Op const& op, Dst const& dst, int i, In const&... in) {
  using D = typename Dst::value_type;
  core::Pack<D, N> out;
  auto compute = [&](auto const&... pack) {
    CUTE_UNROLL
    for (int j = 0; j < N; ++j) out.value[j] = op.template operator()<D>(pack.value[j]...);
  };
  compute(in.template get<N>(i)...);
  core::store_pack<N>(dst, i, out);
}

template <class Op, class Dst, class... Src>
__device__ void map_static(Op const& op, Dst const& dst, Src const&... src) {
  using LD = typename Dst::layout_type;
  using D = typename Dst::value_type;
  constexpr bool reorder = (core::modes_correspond<typename Src::layout_type, LD>() && ...);
  auto const ld = core::enumerate_like<reorder, LD>(dst.layout());
  auto const d = cute::make_tensor(dst.data(), ld);
  constexpr int size = decltype(cute::size(ld))::value;
  auto run = [&](auto const&... in) {
    constexpr int bytes = core::largest_of(int(sizeof(D)), int(sizeof(typename Src::value_type))...);
    constexpr int n = core::pack_length(
        (core::leading_run<decltype(ld)>() | ... | packed_run<typename stdx::remove_cvref_t<decltype(in)>::layout_type>()),
        bytes);
    constexpr bool packs =
        n > 1 && size % n == 0 && core::runs_stay_aligned<n, decltype(ld)>() &&
        (core::runs_stay_aligned<packed_run<typename stdx::remove_cvref_t<decltype(in)>::layout_type>() ? n : 1,
                                 typename stdx::remove_cvref_t<decltype(in)>::layout_type>() && ...);
    if constexpr (packs) {
      if (core::is_aligned<n * sizeof(D)>(core::raw(d)) && (in.template aligned<n>() && ...)) {
        CUTE_UNROLL
        for (int i = 0; i < size; i += n) apply<n>(op, d, i, in...);
        return;
      }
    }
    CUTE_UNROLL
    for (int i = 0; i < size; ++i) apply<1>(op, d, i, in...);
  };
  auto input = [&](auto const& s) {
    auto const layout = core::enumerate_like<reorder, LD>(s.layout());
    auto const t = cute::make_tensor(s.data(), layout);
    return Input<stdx::remove_cv_t<decltype(t)>>{t};
  };
  run(input(src)...);
}

/// dst[i] = op<D>(src[i]...) over plain views of equal size (after `broadcast_view`).
template <class Op, class Dst, class... Src>
__device__ void map(Op const& op, Dst const& dst, Src const&... src) {
  using LD = typename Dst::layout_type;
  using D = typename Dst::value_type;
  if constexpr ((cute::is_static<LD>::value && ... && cute::is_static<typename Src::layout_type>::value)) {
    static_assert(((decltype(cute::size(src.layout()))::value == decltype(cute::size(LD{}))::value) && ...),
                  "ops: operands hold different numbers of elements; give broadcast modes extent 1 or stride 0");
    map_static(op, dst, src...);
  } else {
    auto const size = cute::size(dst);
    for (decltype(size + 0) i = 0; i < size; ++i)
      const_cast<D*>(core::raw(dst))[dst.layout()(i)] =
          op.template operator()<D>(core::raw(src)[src.layout()(i)]...);
  }
}

}  // namespace elementwise_impl
}  // namespace ops
}  // namespace tilefoundry
