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

/// Apply `op` to N elements from number i on. Every input is read before the output is written.
template <int N, class Op, class Dst, class... Src>
__device__ void apply(Op const& op, Dst const& dst, int i, Src const&... src) {
  using D = typename Dst::value_type;
  core::Pack<D, N> out;
  auto compute = [&](auto const&... pack) {
    CUTE_UNROLL
    for (int j = 0; j < N; ++j) out.value[j] = op.template operator()<D>(pack.value[j]...);
  };
  compute(core::load_pack<N>(src, i)...);
  core::store_pack<N>(dst, i, out);
}

template <class Op, class Dst, class... Src>
__device__ void map_ordered(Op const& op, Dst const& dst, Src const&... src) {
  constexpr int size = decltype(cute::size(dst.layout()))::value;
  constexpr int n = core::common_pack<Dst, Src...>(size);
  if constexpr (n > 1 && core::packs_stay_aligned<n, Dst, Src...>()) {
    if (core::pack_aligned<n>(dst) && (core::pack_aligned<n>(src) && ...)) {
      CUTE_UNROLL
      for (int i = 0; i < size; i += n) apply<n>(op, dst, i, src...);
      return;
    }
  }
  CUTE_UNROLL
  for (int i = 0; i < size; ++i) apply<1>(op, dst, i, src...);
}

template <class Op, class Dst, class... Src>
__device__ void map_static(Op const& op, Dst const& dst, Src const&... src) {
  using Guide = decltype(core::guide_layout<Dst, Src...>());
  constexpr bool reorder = (core::modes_correspond<typename Src::layout_type, typename Dst::layout_type>() && ...);
  auto ordered = [](auto const& t) {
    return cute::make_tensor(t.data(), core::enumerate_like<reorder, Guide>(t.layout()));
  };
  map_ordered(op, ordered(dst), ordered(src)...);
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
