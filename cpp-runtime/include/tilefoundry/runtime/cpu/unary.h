/// \file unary.h
/// `ops::unary`: one entry for the unary family, the tag as an argument.
#pragma once

#include <tilefoundry/runtime/cpu/tags.h>
#include <tilefoundry/runtime/cpu/view.h>

namespace tilefoundry {
namespace ops {

/// Scalar operations that one application of an elementary function counts as, for the work threshold.
inline constexpr index_t elementwise_cost = 4;

/// dst[i] = op(src[i]), rounded once to dst's type. Extents of src and dst are equal.
/// src and dst are the same memory or disjoint.
template <class Op, class S, class D, int R>
void unary(Op op, View<S, R> const& src, View<D, R> const& dst) {
  using Out = std::remove_const_t<D>;
  tilefoundry::detail::for_each_run<R, 2>(
      dst.shape, {src.stride, dst.stride}, elementwise_cost,
      [=](index_t n, index_t const* at, index_t const* step) {
        S* s = src.data + at[0];
        D* d = dst.data + at[1];
        if (step[0] == 1 && step[1] == 1) {
          TILEFOUNDRY_VECTORIZE
          for (index_t i = 0; i < n; ++i) d[i] = convert<Out>(op(widen(std::remove_const_t<S>(s[i]))));
        } else {
          for (index_t i = 0; i < n; ++i)
            d[i * step[1]] = convert<Out>(op(widen(std::remove_const_t<S>(s[i * step[0]]))));
        }
      });
}

}  // namespace ops
}  // namespace tilefoundry
