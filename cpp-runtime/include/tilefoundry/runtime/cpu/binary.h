/// \file binary.h
/// `ops::binary`: one entry for the binary family; zero strides broadcast.
#pragma once

#include <tilefoundry/runtime/cpu/unary.h>

namespace tilefoundry {
namespace ops {

/// dst[i] = op(lhs[i], rhs[i]), computed in the wider compute type of the two and rounded once.
/// All three have dst's extents; `broadcast_to` gives operands their zero strides.
template <class Op, class A, class B, class D, int R>
void binary(Op op, View<A, R> const& lhs, View<B, R> const& rhs, View<D, R> const& dst) {
  using Out = std::remove_const_t<D>;
  using X = compute_t<std::remove_const_t<A>>;
  using Y = compute_t<std::remove_const_t<B>>;
  using C = std::conditional_t<std::is_same_v<X, Y>, X, std::common_type_t<X, Y>>;
  auto get = [](auto x) { return convert<C>(widen(x)); };
  tilefoundry::detail::for_each_run<R, 3>(
      dst.shape, {lhs.stride, rhs.stride, dst.stride}, elementwise_cost,
      [=](index_t n, index_t const* at, index_t const* step) {
        A* a = lhs.data + at[0];
        B* b = rhs.data + at[1];
        D* d = dst.data + at[2];
        if (step[0] == 1 && step[1] == 1 && step[2] == 1) {
          TILEFOUNDRY_VECTORIZE
          for (index_t i = 0; i < n; ++i) d[i] = convert<Out>(op(get(a[i]), get(b[i])));
        } else if (step[0] == 1 && step[1] == 0 && step[2] == 1) {
          const C y = get(*b);
          TILEFOUNDRY_VECTORIZE
          for (index_t i = 0; i < n; ++i) d[i] = convert<Out>(op(get(a[i]), y));
        } else if (step[0] == 0 && step[1] == 1 && step[2] == 1) {
          const C x = get(*a);
          TILEFOUNDRY_VECTORIZE
          for (index_t i = 0; i < n; ++i) d[i] = convert<Out>(op(x, get(b[i])));
        } else {
          for (index_t i = 0; i < n; ++i)
            d[i * step[2]] = convert<Out>(op(get(a[i * step[0]]), get(b[i * step[1]])));
        }
      });
}

}  // namespace ops
}  // namespace tilefoundry
