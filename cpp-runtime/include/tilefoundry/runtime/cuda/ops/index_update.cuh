/// \file index_update.cuh
/// `ops::index_add` and `ops::index_copy`: rows of the first mode added to or replaced, in index order, without
/// atomics, so that equal inputs give equal bits. All threads of all blocks share the elements.
#pragma once

#include <tilefoundry/runtime/cuda/ops/binary_tags.cuh>
#include <tilefoundry/runtime/cuda/view.cuh>

namespace tilefoundry {
namespace ops {
namespace detail {

template <class I>
__device__ void check_indices(const char* op, View<I, 1> const& index, index_t extent) {
  const IndexFault fault{op};
  ::tilefoundry::detail::share(index.shape[0], [&](index_t i) {
    fault.bounded(static_cast<index_t>(index.data[i * index.stride[0]]), extent);
  });
}

/// `body(row, column, out offset, dst offset, src column offset)` for every element of `out`.
template <class D, class S, class O, int R, class Body>
__device__ void each_element(View<D, R> const& dst, View<S, R> const& src, View<O, R> const& out, Body const& body) {
  const index_t rows = out.shape[0], total = out.size(), columns = rows > 0 ? total / rows : 0;
  ::tilefoundry::detail::share(total, [&](index_t i) {
    const index_t row = i / columns, column = i % columns;
    index_t c = column, s = 0;
    CUTE_UNROLL
    for (int d = R - 1; d >= 1; --d) {
      s += c % out.shape[d] * src.stride[d];
      c /= out.shape[d];
    }
    body(row, out.offset(i), dst.offset(i), s);
  });
}

}  // namespace detail

/// out = dst, with src[i, ...] added to row index[i]; sums are formed wide, in index order, and rounded once. out may be
/// dst. All threads of all blocks call; an index outside stops the kernel. The result is visible to other threads after
/// a barrier over them. No workspace.
template <class D, class I, class S, class O, int R>
__device__ void index_add(View<D, R> const& dst, View<I, 1> const& index, View<S, R> const& src,
                          View<O, R> const& out) {
  detail::check_indices("index_add", index, dst.shape[0]);
  using A = compute_t<stdx::remove_const_t<O>>;
  detail::each_element(dst, src, out, [&](index_t row, index_t o, index_t d, index_t s) {
    A total = widen(stdx::remove_const_t<D>(dst.data[d]));
    for (index_t i = 0; i < index.shape[0]; ++i)
      if (static_cast<index_t>(index.data[i * index.stride[0]]) == row)
        total = add_op{}(total, static_cast<A>(widen(stdx::remove_const_t<S>(src.data[s + i * src.stride[0]]))));
    out.data[o] = convert<O>(total);
  });
}

/// out = dst, with row index[i] replaced by src[i, ...]; of equal indices the last counts. Otherwise as `index_add`: all
/// threads call, the result is visible after a barrier, no workspace.
template <class D, class I, class S, class O, int R>
__device__ void index_copy(View<D, R> const& dst, View<I, 1> const& index, View<S, R> const& src,
                           View<O, R> const& out) {
  detail::check_indices("index_copy", index, dst.shape[0]);
  detail::each_element(dst, src, out, [&](index_t row, index_t o, index_t d, index_t s) {
    index_t last = index.shape[0] - 1;
    while (last >= 0 && static_cast<index_t>(index.data[last * index.stride[0]]) != row) --last;
    // Where out is dst, rows that no index names are left alone.
    if (last >= 0)
      out.data[o] = src.data[s + last * src.stride[0]];
    else if (dst.data + d != out.data + o)
      out.data[o] = dst.data[d];
  });
}

}  // namespace ops
}  // namespace tilefoundry
