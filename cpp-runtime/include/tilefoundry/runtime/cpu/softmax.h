/// \file softmax.h
/// `ops::softmax` over the last mode, and the row buffer that row kernels share.
#pragma once

#include <vector>

#include <tilefoundry/runtime/cpu/reduce.h>

namespace tilefoundry {
namespace ops {
namespace detail {

/// Call `body(row_in, row_out)` on every row along the last mode, each gathered into and scattered from a
/// dense buffer of accumulator type A; rows run in parallel.
template <class A, class S, class D, int R, class Body>
void for_each_row(View<S, R> const& src, View<D, R> const& dst, index_t cost, Body const& body) {
  static_assert(R >= 1, "ops: row kernels need a mode to run along; a rank-0 view has none");
  const index_t n = src.shape[R - 1], rows = n > 0 ? src.size() / n : 0;
  parallel_for(rows, n * cost, [&](index_t begin, index_t end) {
    std::vector<A> buffer(static_cast<std::size_t>(n));
    const index_t s_step = src.stride[R - 1], d_step = dst.stride[R - 1];
    for (index_t row = begin; row < end; ++row) {
      index_t from = 0, to = 0, rest = row;
      for (int d = R - 2; d >= 0; --d) {
        const index_t at = rest % src.shape[d];
        rest /= src.shape[d];
        from += at * src.stride[d];
        to += at * dst.stride[d];
      }
      A* x = buffer.data();
      S* s = src.data + from;
      D* o = dst.data + to;
      if (s_step == 1) {
        for (index_t i = 0; i < n; ++i) x[i] = convert<A>(s[i]);
      } else {
        for (index_t i = 0; i < n; ++i) x[i] = convert<A>(s[i * s_step]);
      }
      body(x, n);
      if (d_step == 1) {
        for (index_t i = 0; i < n; ++i) o[i] = convert<D>(x[i]);
      } else {
        for (index_t i = 0; i < n; ++i) o[i * d_step] = convert<D>(x[i]);
      }
    }
  });
}

}  // namespace detail

/// dst = softmax(src) along the last mode, computed in the accumulator type and rounded once.
/// A row that holds NaN or +infinity, or only -infinity, gives NaN. src may be dst.
template <class S, class D, int R>
void softmax(View<S, R> const& src, View<D, R> const& dst) {
  using A = accumulate_t<std::remove_const_t<S>>;
  static_assert(std::is_floating_point_v<A>, "ops::softmax: needs a floating-point operand; cast it first");
  detail::for_each_row<A>(src, dst, 8, [](A* x, index_t n) {
    const A top = detail::reduce_run<max_op, A>(x, n, 1, max_op::identity<A>());
    for (index_t i = 0; i < n; ++i) x[i] = math::exp(x[i] - top);
    const A total = detail::reduce_run<sum_op, A>(x, n, 1, A(0));
    const A scale = A(1) / total;
    for (index_t i = 0; i < n; ++i) x[i] *= scale;
  });
}

}  // namespace ops
}  // namespace tilefoundry
