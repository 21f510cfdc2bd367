/// \file view.h
/// `View`: a pointer with extents and strides, row-major by default, and the loop over several of them.
#pragma once

#include <type_traits>

#include <tilefoundry/runtime/cpu/parallel.h>

namespace tilefoundry {

/// Strided view of rank R. Strides count elements; a stride of 0 repeats. It owns nothing.
template <class T, int R>
struct View {
  using value_type = T;
  static constexpr int rank = R;
  T* data;
  index_t shape[R > 0 ? R : 1];
  index_t stride[R > 0 ? R : 1];

  index_t size() const {
    index_t n = 1;
    for (int d = 0; d < R; ++d) n *= shape[d];
    return n;
  }
  /// Same memory, read only.
  operator View<const T, R>() const {
    View<const T, R> out{data, {}, {}};
    for (int d = 0; d < R; ++d) out.shape[d] = shape[d], out.stride[d] = stride[d];
    return out;
  }
};


/// Dense row-major view: `make_view<2>(p, {rows, columns})`.
template <int R, class T>
View<T, R> make_view(T* data, index_t const (&shape)[R]) {
  View<T, R> view{data, {}, {}};
  index_t step = 1;
  for (int d = R - 1; d >= 0; --d) {
    view.shape[d] = shape[d];
    view.stride[d] = step;
    step *= shape[d];
  }
  return view;
}

/// View with given strides.
template <int R, class T>
View<T, R> make_view(T* data, index_t const (&shape)[R], index_t const (&stride)[R]) {
  View<T, R> view{data, {}, {}};
  for (int d = 0; d < R; ++d) view.shape[d] = shape[d], view.stride[d] = stride[d];
  return view;
}

/// Rank 0: one element.
template <class T>
View<T, 0> make_view(T* data) {
  return View<T, 0>{data, {1}, {0}};
}

/// `view` seen with the extents of `shape` (rank N >= R): missing leading and extent-1 modes repeat.
/// Every other extent must be equal; the caller has checked that.
template <int N, class T, int R>
View<T, N> broadcast_to(View<T, R> const& view, index_t const* shape) {
  static_assert(N >= R, "broadcast_to: the target has fewer modes than the view; broadcasting only adds leading modes");
  View<T, N> out{view.data, {}, {}};
  for (int d = 0; d < N; ++d) {
    const int from = d - (N - R);
    out.shape[d] = shape[d];
    out.stride[d] = from < 0 || view.shape[from] == 1 ? 0 : view.stride[from];
  }
  return out;
}

/// `view` with mode `axis` moved to the end, so that row kernels run along it.
template <class T, int R>
View<T, R> axis_last(View<T, R> view, int axis) {
  for (int d = axis; d + 1 < R; ++d) {
    const index_t extent = view.shape[d], step = view.stride[d];
    view.shape[d] = view.shape[d + 1], view.stride[d] = view.stride[d + 1];
    view.shape[d + 1] = extent, view.stride[d + 1] = step;
  }
  return view;
}

namespace detail {

/// Loop nest over N operands of one shape: extent-1 modes dropped, modes that are contiguous for all merged.
template <int R, int N>
struct LoopNest {
  int rank = 0;
  index_t shape[R + 1] = {};
  index_t stride[N][R + 1] = {};

  LoopNest(index_t const* extents, index_t const* const (&strides)[N]) {
    for (int d = 0; d < R; ++d) push(extents[d], strides, d);
    if (rank == 0) {
      shape[0] = 1;
      for (int k = 0; k < N; ++k) stride[k][0] = 0;
      rank = 1;
    }
  }

  index_t outer() const {
    index_t n = 1;
    for (int d = 0; d + 1 < rank; ++d) n *= shape[d];
    return n;
  }

  /// Element offsets of all operands at row `row` of the outer modes.
  void offsets(index_t row, index_t (&out)[N]) const {
    for (int k = 0; k < N; ++k) out[k] = 0;
    for (int d = rank - 2; d >= 0; --d) {
      const index_t at = row % shape[d];
      row /= shape[d];
      for (int k = 0; k < N; ++k) out[k] += at * stride[k][d];
    }
  }

 private:
  void push(index_t extent, index_t const* const (&strides)[N], int d) {
    if (extent == 1) return;
    bool merges = rank > 0;
    for (int k = 0; merges && k < N; ++k) merges = stride[k][rank - 1] == extent * strides[k][d];
    const int at = merges ? rank - 1 : rank++;
    shape[at] = merges ? shape[at] * extent : extent;
    for (int k = 0; k < N; ++k) stride[k][at] = strides[k][d];
  }
};

/// Call `body(count, offsets, inner_strides)` on every contiguous piece of the innermost mode, in parallel.
template <int R, int N, class Body>
void for_each_run(index_t const* shape, index_t const* const (&strides)[N], index_t cost, Body const& body) {
  const LoopNest<R, N> nest(shape, strides);
  const index_t inner = nest.shape[nest.rank - 1], total = nest.outer() * inner;
  index_t step[N];
  for (int k = 0; k < N; ++k) step[k] = nest.stride[k][nest.rank - 1];
  parallel_for(total, cost, [&](index_t begin, index_t end) {
    while (begin < end) {
      const index_t row = begin / inner, column = begin % inner;
      const index_t count = end - begin < inner - column ? end - begin : inner - column;
      index_t at[N];
      nest.offsets(row, at);
      for (int k = 0; k < N; ++k) at[k] += column * step[k];
      body(count, at, step);
      begin += count;
    }
  });
}

}  // namespace detail
}  // namespace tilefoundry
