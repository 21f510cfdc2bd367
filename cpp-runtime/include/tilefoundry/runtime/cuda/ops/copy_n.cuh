/// \file copy_n.cuh
/// `ops::copy_n` and `ops::fill`.
#pragma once

#include <tilefoundry/runtime/cuda/ops/unary.cuh>

namespace tilefoundry {
namespace ops {

/// dst[i] = src[i] for i below `count` in CuTe's order; `count` masks the tail of a tile. A count that covers all
/// takes the wide path. Each calling thread copies its own operands; valid in that thread, no workspace.
template <class Src, class Dst>
__device__ void copy_n(Src const& src, Dst&& dst, int count) {
  auto const s = ::tilefoundry::detail::plain_view(src);
  auto const d = ::tilefoundry::detail::plain_view(dst);
  using S = stdx::remove_cv_t<typename decltype(s)::value_type>;
  using D = typename decltype(d)::value_type;
  static_assert(stdx::is_same_v<S, D>, "ops::copy_n: source and destination hold different element types; use ops::cast");
  if (count >= static_cast<int>(cute::size(d))) {
    unary_impl::Unary<identity_op>{}.run(src, dst);
    return;
  }
  for (int i = 0; i < count; ++i)
    const_cast<D*>(::tilefoundry::detail::raw(d))[d.layout()(i)] = ::tilefoundry::detail::raw(s)[s.layout()(i)];
}

/// Every element of dst becomes `value`, converted once. Each calling thread fills its own dst; valid in that thread, no
/// workspace.
template <class Dst, class Value>
__device__ void fill(Dst&& dst, Value value) {
  using D = typename decltype(::tilefoundry::detail::plain_view(dst))::value_type;
  D const stored = convert<D>(value);
  auto const one = cute::make_tensor(&stored, cute::make_layout(cute::Int<1>{}));
  unary_impl::Unary<identity_op>{}.run(one, dst);
}

}  // namespace ops
}  // namespace tilefoundry
