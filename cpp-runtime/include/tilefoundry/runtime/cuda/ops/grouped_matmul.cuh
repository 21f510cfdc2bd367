/// \file grouped_matmul.cuh
/// `ops::grouped_matmul`: consecutive row groups, each times its own matrix.
#pragma once

#include <tilefoundry/runtime/cuda/ops/matmul.cuh>
#include <tilefoundry/runtime/cuda/view.cuh>

namespace tilefoundry {
namespace ops {

/// dst[i] = x[i] * w[e] for offsets[e] <= i < offsets[e + 1]; rows past the last offset are 0. All threads of all
/// blocks call; results are visible to other blocks after a grid barrier or the end of the kernel. Offsets that do not
/// start at 0, fall, or pass the rows of x stop the kernel. `workspace` as for `matmul` with these element types.
template <class X, class W, class I, class D>
__device__ void grouped_matmul(View<X, 2> const& x, View<W, 3> const& w, View<I, 1> const& offsets,
                               View<D, 2> const& dst, void* workspace) {
  const index_t rows = x.shape[0], groups = w.shape[0];
  auto offset = [&](index_t e) { return static_cast<index_t>(offsets.data[e * offsets.stride[0]]); };
  bool ordered = offset(0) == 0 && offset(groups) <= rows;
  for (index_t e = 0; e < groups; ++e) ordered = ordered && offset(e) <= offset(e + 1);
  if (!ordered)
    device_fail("tf.grouped_matmul: offsets must start at 0, never fall, and end at no more than the rows of x");
  auto matrix = [](auto* data, index_t m, index_t n, index_t row_step, index_t column_step) {
    return as_gmem(data, cute::make_layout(cute::make_shape(m, n), cute::make_stride(row_step, column_step)));
  };
  for (index_t e = 0; e < groups; ++e) {
    const index_t first = offset(e), count = offset(e + 1) - first;
    if (count == 0) continue;
    auto const a = matrix(x.data + first * x.stride[0], count, x.shape[1], x.stride[0], x.stride[1]);
    auto const b = matrix(w.data + e * w.stride[0], w.shape[1], w.shape[2], w.stride[1], w.stride[2]);
    auto d = matrix(dst.data + first * dst.stride[0], count, dst.shape[1], dst.stride[0], dst.stride[1]);
    ops::matmul(a, b, d, workspace);
  }
  const index_t used = offset(groups), columns = dst.shape[1];
  ::tilefoundry::detail::share((rows - used) * columns, [&](index_t i) {
    dst.data[(used + i / columns) * dst.stride[0] + i % columns * dst.stride[1]] = convert<D>(0.0f);
  });
}

}  // namespace ops
}  // namespace tilefoundry
