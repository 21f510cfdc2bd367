/// \file cast.cuh
/// `ops::cast` and `ops::clamp`, through the unary skeleton.
#pragma once

#include <tilefoundry/runtime/cuda/ops/unary.cuh>

namespace tilefoundry {
namespace ops {

/// dst[i] = src[i] in dst's type, by the rules of `convert`. Each calling thread works on its own operands; valid in
/// that thread, no workspace.
template <class Src, class Dst>
__device__ void cast(Src const& src, Dst&& dst) {
  unary_impl::Unary<identity_op>{}.run(src, dst);
}

/// dst[i] = min(max(src[i], low), high); NaN stays NaN. Each calling thread works on its own operands; valid in that
/// thread, no workspace.
template <class Src, class Dst, class B>
__device__ void clamp(Src const& src, Dst&& dst, B low, B high) {
  unary_impl::Unary<clamp_op<B>>{{low, high}}.run(src, dst);
}

}  // namespace ops
}  // namespace tilefoundry
