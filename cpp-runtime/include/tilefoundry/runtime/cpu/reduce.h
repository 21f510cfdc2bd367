/// \file reduce.h
/// `ops::reduce`: sum, mean, max, min and absmax over trailing modes.
#pragma once

#include <limits>

#include <tilefoundry/runtime/cpu/tags.h>
#include <tilefoundry/runtime/cpu/view.h>

namespace tilefoundry {
namespace ops {

// Combine tags. `map` is applied to each element, `join` to two partial results; NaN propagates through all.
struct sum_op {
  template <class A>
  static constexpr A identity() { return A(0); }
  template <class A>
  static A map(A x) { return x; }
  template <class A>
  static A join(A a, A b) { return add_op{}(a, b); }
};
struct mean_op : sum_op {};
struct max_op {
  template <class A>
  static constexpr A identity() {
    if constexpr (std::is_floating_point_v<A>) return -std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::lowest();
  }
  template <class A>
  static A map(A x) { return x; }
  template <class A>
  static A join(A a, A b) { return maximum_op{}(a, b); }
};
struct min_op {
  template <class A>
  static constexpr A identity() {
    if constexpr (std::is_floating_point_v<A>) return std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::max();
  }
  template <class A>
  static A map(A x) { return x; }
  template <class A>
  static A join(A a, A b) { return minimum_op{}(a, b); }
};
struct absmax_op : max_op {
  template <class A>
  static A map(A x) { return abs_op{}(x); }
};

namespace detail {

/// Independent partial results, so that the loop vectorises; joined in a fixed order.
inline constexpr int reduce_lanes = 16;

/// Reduction of `n` elements at stride `step`, continued from `start`.
template <class Op, class A, class S>
A reduce_run(S const* s, index_t n, index_t step, A start) {
  if (step != 1) {
    for (index_t i = 0; i < n; ++i) start = Op::template join<A>(start, Op::template map<A>(convert<A>(s[i * step])));
    return start;
  }
  A lane[reduce_lanes];
  for (int l = 0; l < reduce_lanes; ++l) lane[l] = Op::template identity<A>();
  index_t i = 0;
  for (; i + reduce_lanes <= n; i += reduce_lanes)
    for (int l = 0; l < reduce_lanes; ++l)
      lane[l] = Op::template join<A>(lane[l], Op::template map<A>(convert<A>(s[i + l])));
  for (; i < n; ++i) lane[0] = Op::template join<A>(lane[0], Op::template map<A>(convert<A>(s[i])));
  for (int half = reduce_lanes / 2; half > 0; half /= 2)
    for (int l = 0; l < half; ++l) lane[l] = Op::template join<A>(lane[l], lane[l + half]);
  return Op::template join<A>(start, lane[0]);
}

}  // namespace detail

/// dst[kept] = Op over the last `R - K` modes of src; K is dst's rank, the leading modes' extents are equal.
///
/// Reals accumulate in float (double for double), integers in 64 bits and wrap into dst. An empty reduction
/// gives 0 for sum and NaN for mean; the callers refuse empty max, min and absmax. Other axes: `axis_last`.
template <class Op, class S, class D, int R, int K>
void reduce(View<S, R> const& src, View<D, K> const& dst) {
  static_assert(K < R, "ops::reduce: the destination keeps every mode of the source; drop the reduced ones");
  using In = std::remove_const_t<S>;
  using A = accumulate_t<In>;
  static_assert(!std::is_same_v<Op, mean_op> || is_real_v<D>,
                "ops::reduce: the mean of integers is not an integer; give a floating-point destination");
  index_t count = 1;
  for (int d = K; d < R; ++d) count *= src.shape[d];
  parallel_for(dst.size(), count, [=](index_t begin, index_t end) {
    const tilefoundry::detail::LoopNest<R - K, 1> inner(src.shape + K, {src.stride + K});
    const index_t run = inner.shape[inner.rank - 1], rows = inner.outer();
    for (index_t item = begin; item < end; ++item) {
      index_t from = 0, to = 0, rest = item;
      for (int d = K - 1; d >= 0; --d) {
        const index_t at = rest % dst.shape[d];
        rest /= dst.shape[d];
        from += at * src.stride[d];
        to += at * dst.stride[d];
      }
      A total = Op::template identity<A>();
      for (index_t row = 0; row < rows && count > 0; ++row) {
        index_t at[1];
        inner.offsets(row, at);
        total = detail::reduce_run<Op, A>(src.data + from + at[0], run, inner.stride[0][inner.rank - 1], total);
      }
      if constexpr (std::is_same_v<Op, mean_op>) {
        using M = std::conditional_t<std::is_same_v<A, double>, double, float>;
        dst.data[to] = convert<D>(static_cast<M>(total) / static_cast<M>(count));
      } else {
        dst.data[to] = convert<D>(total);
      }
    }
  });
}

}  // namespace ops
}  // namespace tilefoundry
