/// \file index_update.h
/// `ops::index_add` and `ops::index_copy`: rows of the first mode added to or replaced.
#pragma once

#include <vector>

#include <tilefoundry/runtime/cpu/copy.h>
#include <tilefoundry/runtime/cpu/tags.h>
#include <tilefoundry/runtime/host/failure.h>

namespace tilefoundry {
namespace ops {
namespace detail {

template <class I>
void check_indices(const char* op, View<I, 1> const& index, index_t extent) {
  IndexFault fault;
  for (index_t i = 0; i < index.shape[0]; ++i)
    fault.bounded(static_cast<index_t>(index.data[i * index.stride[0]]), extent);
  fault.check(op, extent);
}

/// Offset of column `column`, a position in the modes after the first.
template <int R>
index_t column_offset(index_t column, index_t const* shape, index_t const* stride) {
  index_t at = 0;
  for (int d = R - 1; d >= 1; --d) {
    at += column % shape[d] * stride[d];
    column /= shape[d];
  }
  return at;
}

}  // namespace detail

/// out = dst, with src[i, ...] added to row index[i]; sums are formed wide, in index order, and rounded once.
template <class D, class I, class S, class O, int R>
void index_add(View<D, R> const& dst, View<I, 1> const& index, View<S, R> const& src, View<O, R> const& out) {
  static_assert(R >= 1, "ops::index_add: needs a mode to pick rows of");
  detail::check_indices("index_add", index, dst.shape[0]);
  const index_t rows = dst.shape[0], count = index.shape[0], columns = rows > 0 ? dst.size() / rows : 0;
  using A = compute_t<std::remove_const_t<O>>;
  parallel_for(columns, rows + count, [=](index_t begin, index_t end) {
    std::vector<A> total(static_cast<std::size_t>(rows));
    for (index_t column = begin; column < end; ++column) {
      const index_t d = detail::column_offset<R>(column, dst.shape, dst.stride);
      const index_t s = detail::column_offset<R>(column, src.shape, src.stride);
      const index_t o = detail::column_offset<R>(column, out.shape, out.stride);
      for (index_t r = 0; r < rows; ++r) total[r] = widen(std::remove_const_t<D>(dst.data[d + r * dst.stride[0]]));
      for (index_t i = 0; i < count; ++i) {
        A& at = total[static_cast<index_t>(index.data[i * index.stride[0]])];
        at = add_op{}(at, static_cast<A>(widen(std::remove_const_t<S>(src.data[s + i * src.stride[0]]))));
      }
      for (index_t r = 0; r < rows; ++r) out.data[o + r * out.stride[0]] = convert<O>(total[r]);
    }
  });
}

/// out = dst, with row index[i] replaced by src[i, ...]; of equal indices the last counts.
template <class D, class I, class S, class O, int R>
void index_copy(View<D, R> const& dst, View<I, 1> const& index, View<S, R> const& src, View<O, R> const& out) {
  static_assert(R >= 1, "ops::index_copy: needs a mode to pick rows of");
  detail::check_indices("index_copy", index, dst.shape[0]);
  tilefoundry::copy(dst, out);
  const index_t count = index.shape[0], columns = count > 0 ? src.size() / count : 0;
  parallel_for(columns, count, [=](index_t begin, index_t end) {
    for (index_t column = begin; column < end; ++column) {
      const index_t s = detail::column_offset<R>(column, src.shape, src.stride);
      const index_t o = detail::column_offset<R>(column, src.shape, out.stride);
      for (index_t i = 0; i < count; ++i)
        out.data[o + static_cast<index_t>(index.data[i * index.stride[0]]) * out.stride[0]] =
            src.data[s + i * src.stride[0]];
    }
  });
}

}  // namespace ops
}  // namespace tilefoundry
