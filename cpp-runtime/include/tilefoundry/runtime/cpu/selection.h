/// \file selection.h
/// `ops::argmax` and `ops::topk` along the last mode. NaN counts as the greatest; equals go to the lower index.
#pragma once

#include <algorithm>
#include <vector>

#include <tilefoundry/runtime/cpu/dtype.h>
#include <tilefoundry/runtime/cpu/view.h>

namespace tilefoundry {
namespace ops {
namespace detail {

/// Whether a comes strictly before b in descending order.
template <class T>
bool above(T a, T b) {
  return a > b || (a != a && b == b);
}

/// Offsets of row `row` over the leading R - 1 modes of `shape`.
template <int R, int N>
void row_offsets(index_t row, index_t const* shape, index_t const* const (&strides)[N], index_t (&at)[N]) {
  for (int j = 0; j < N; ++j) at[j] = 0;
  for (int d = R - 2; d >= 0; --d) {
    const index_t i = row % shape[d];
    row /= shape[d];
    for (int j = 0; j < N; ++j) at[j] += i * strides[j][d];
  }
}

}  // namespace detail

/// dst[row] = index of the greatest element of src[row, :]; dst has one mode less.
template <class S, int R>
void argmax(View<S, R> const& src, View<i64, R - 1> const& dst) {
  static_assert(R >= 1, "ops::argmax: needs a mode to run along");
  const index_t n = src.shape[R - 1], rows = n > 0 ? src.size() / n : 0, step = src.stride[R - 1];
  parallel_for(rows, n, [=](index_t begin, index_t end) {
    for (index_t row = begin; row < end; ++row) {
      index_t at[2];
      detail::row_offsets<R, 2>(row, src.shape, {src.stride, dst.stride}, at);
      S* s = src.data + at[0];
      index_t best = 0;
      auto top = widen(std::remove_const_t<S>(s[0]));
      for (index_t i = 1; i < n; ++i) {
        const auto x = widen(std::remove_const_t<S>(s[i * step]));
        if (detail::above(x, top)) top = x, best = i;
      }
      dst.data[at[1]] = best;
    }
  });
}

/// values[row, :] and indices[row, :] = the k greatest (or least) elements of src[row, :], best first.
template <class S, class V, int R>
void topk(View<S, R> const& src, View<V, R> const& values, View<i64, R> const& indices, bool largest) {
  static_assert(R >= 1, "ops::topk: needs a mode to run along");
  const index_t n = src.shape[R - 1], k = values.shape[R - 1], step = src.stride[R - 1];
  const index_t rows = n > 0 ? src.size() / n : 0;
  if (k == 0) return;
  parallel_for(rows, n * 8, [=](index_t begin, index_t end) {
    using C = compute_t<std::remove_const_t<S>>;
    std::vector<C> key(static_cast<std::size_t>(n));
    std::vector<index_t> order(static_cast<std::size_t>(n));
    for (index_t row = begin; row < end; ++row) {
      index_t at[3];
      detail::row_offsets<R, 3>(row, src.shape, {src.stride, values.stride, indices.stride}, at);
      S* s = src.data + at[0];
      for (index_t i = 0; i < n; ++i) key[i] = widen(std::remove_const_t<S>(s[i * step])), order[i] = i;
      std::partial_sort(order.begin(), order.begin() + k, order.end(), [&](index_t a, index_t b) {
        if (detail::above(key[a], key[b])) return largest;
        if (detail::above(key[b], key[a])) return !largest;
        return a < b;
      });
      for (index_t j = 0; j < k; ++j) {
        values.data[at[1] + j * values.stride[R - 1]] = s[order[j] * step];
        indices.data[at[2] + j * indices.stride[R - 1]] = order[j];
      }
    }
  });
}

}  // namespace ops
}  // namespace tilefoundry
