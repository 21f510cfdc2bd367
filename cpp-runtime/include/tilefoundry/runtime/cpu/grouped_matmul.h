/// \file grouped_matmul.h
/// `ops::grouped_matmul`: consecutive row groups, each times its own matrix.
#pragma once

#include <tilefoundry/runtime/cpu/contract.h>
#include <tilefoundry/runtime/cpu/copy.h>
#include <tilefoundry/runtime/host/failure.h>

namespace tilefoundry {
namespace ops {

/// dst[i] = x[i] * w[e] for offsets[e] <= i < offsets[e + 1]; rows past the last offset are 0.
template <class X, class W, class I, class D>
void grouped_matmul(View<X, 2> const& x, View<W, 3> const& w, View<I, 1> const& offsets, View<D, 2> const& dst) {
  using A = accumulate_t<std::remove_const_t<X>>;
  const index_t rows = x.shape[0], groups = w.shape[0];
  auto offset = [=](index_t e) { return static_cast<index_t>(offsets.data[e * offsets.stride[0]]); };
  bool ordered = offset(0) == 0 && offset(groups) <= rows;
  for (index_t e = 0; e < groups; ++e) ordered = ordered && offset(e) <= offset(e + 1);
  if (!ordered)
    host::fail("ValueError", {"tf.grouped_matmul: offsets must start at 0, never fall, and end at no more than the ",
                              rows, " rows of x"});
  for (index_t e = 0; e < groups; ++e) {
    const index_t first = offset(e), count = offset(e + 1) - first;
    if (count == 0) continue;
    const auto part = make_view<2>(x.data + first * x.stride[0], {count, x.shape[1]}, {x.stride[0], x.stride[1]});
    const auto matrix = make_view<2>(w.data + e * w.stride[0], {w.shape[1], w.shape[2]}, {w.stride[1], w.stride[2]});
    D* const out = dst.data + first * dst.stride[0];
    const index_t row_step = dst.stride[0], column_step = dst.stride[1];
    contract_in_scratch<false, A>(part, matrix, {count, dst.shape[1]},
                                  [=](A* block, index_t pitch, index_t, index_t row, index_t row_end, index_t column,
                                      index_t column_end) {
                                    for (index_t i = row; i < row_end; ++i)
                                      for (index_t j = column; j < column_end; ++j)
                                        out[i * row_step + j * column_step] =
                                            convert<D>(block[(i - row) * pitch + j - column]);
                                  });
  }
  const index_t used = offset(groups);
  tilefoundry::fill(
      make_view<2>(dst.data + used * dst.stride[0], {rows - used, dst.shape[1]}, {dst.stride[0], dst.stride[1]}), 0.0f);
}

}  // namespace ops
}  // namespace tilefoundry
