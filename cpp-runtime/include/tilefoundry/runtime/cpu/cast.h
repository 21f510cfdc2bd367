/// \file cast.h
/// `ops::cast` and `ops::clamp`: the identity and the clamp tag through the unary skeleton.
#pragma once

#include <tilefoundry/runtime/cpu/unary.h>

namespace tilefoundry {
namespace ops {

/// dst[i] = src[i] converted to dst's type (rules at `convert`).
template <class S, class D, int R>
void cast(View<S, R> const& src, View<D, R> const& dst) {
  unary(identity_op{}, src, dst);
}

/// dst[i] = min(max(src[i], low), high); NaN stays NaN.
template <class B, class S, class D, int R>
void clamp(View<S, R> const& src, View<D, R> const& dst, B low, B high) {
  unary(clamp_op<B>{low, high}, src, dst);
}

}  // namespace ops
}  // namespace tilefoundry
