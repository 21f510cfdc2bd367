/// \file norm.h
/// `ops::rms_norm` and `ops::layer_norm` over the last mode.
#pragma once

#include <tilefoundry/runtime/cpu/softmax.h>

namespace tilefoundry {
namespace ops {

/// dst = src / sqrt(mean(src^2) + eps) * weight along the last mode; weight is dense, as long as a row.
template <class S, class W, class D, int R>
void rms_norm(View<S, R> const& src, W const* weight, View<D, R> const& dst, double eps) {
  using A = accumulate_t<std::remove_const_t<S>>;
  static_assert(std::is_floating_point_v<A>, "ops::rms_norm: needs a floating-point operand; cast it first");
  detail::for_each_row<A>(src, dst, 4, [=](A* x, index_t n) {
    A lane[detail::reduce_lanes] = {};
    index_t i = 0;
    for (; i + detail::reduce_lanes <= n; i += detail::reduce_lanes)
      for (int l = 0; l < detail::reduce_lanes; ++l) lane[l] += x[i + l] * x[i + l];
    for (; i < n; ++i) lane[0] += x[i] * x[i];
    const A squares = detail::reduce_run<sum_op, A>(lane, detail::reduce_lanes, 1, A(0));
    const A scale = A(1) / std::sqrt(squares / static_cast<A>(n) + static_cast<A>(eps));
    for (index_t j = 0; j < n; ++j) x[j] = x[j] * scale * convert<A>(weight[j]);
  });
}

/// dst = (src - mean) / sqrt(variance + eps) * weight + bias along the last mode, population variance about
/// the mean (two passes over the buffered row, so that a large mean costs no digits).
template <class S, class W, class B, class D, int R>
void layer_norm(View<S, R> const& src, W const* weight, B const* bias, View<D, R> const& dst, double eps) {
  using A = accumulate_t<std::remove_const_t<S>>;
  static_assert(std::is_floating_point_v<A>, "ops::layer_norm: needs a floating-point operand; cast it first");
  detail::for_each_row<A>(src, dst, 6, [=](A* x, index_t n) {
    const A mean = detail::reduce_run<sum_op, A>(x, n, 1, A(0)) / static_cast<A>(n);
    A lane[detail::reduce_lanes] = {};
    index_t i = 0;
    for (; i + detail::reduce_lanes <= n; i += detail::reduce_lanes)
      for (int l = 0; l < detail::reduce_lanes; ++l) {
        x[i + l] -= mean;
        lane[l] += x[i + l] * x[i + l];
      }
    for (; i < n; ++i) {
      x[i] -= mean;
      lane[0] += x[i] * x[i];
    }
    const A variance = detail::reduce_run<sum_op, A>(lane, detail::reduce_lanes, 1, A(0)) / static_cast<A>(n);
    const A scale = A(1) / std::sqrt(variance + static_cast<A>(eps));
    for (index_t j = 0; j < n; ++j) x[j] = x[j] * scale * convert<A>(weight[j]) + convert<A>(bias[j]);
  });
}

}  // namespace ops
}  // namespace tilefoundry
