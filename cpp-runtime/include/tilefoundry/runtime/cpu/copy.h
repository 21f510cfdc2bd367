/// \file copy.h
/// `copy`, `copy_n`, `fill`: moves without arithmetic.
#pragma once

#include <tilefoundry/runtime/cpu/unary.h>

namespace tilefoundry {

/// dst[i] = src[i], one dtype, equal extents. A view onto itself moves nothing.
template <class S, class D, int R>
void copy(View<S, R> const& src, View<D, R> const& dst) {
  static_assert(std::is_same_v<std::remove_const_t<S>, D>,
                "tilefoundry::copy: source and destination hold different element types; use ops::cast");
  bool same = src.data == dst.data;
  for (int d = 0; d < R; ++d) same = same && (src.stride[d] == dst.stride[d] || dst.shape[d] == 1);
  if (same) return;
  detail::for_each_run<R, 2>(dst.shape, {src.stride, dst.stride}, 1,
                             [=](index_t n, index_t const* at, index_t const* step) {
                               S* s = src.data + at[0];
                               D* d = dst.data + at[1];
                               if (step[0] == 1 && step[1] == 1) {
                                 std::memmove(d, s, static_cast<std::size_t>(n) * sizeof(D));
                               } else {
                                 for (index_t i = 0; i < n; ++i) d[i * step[1]] = s[i * step[0]];
                               }
                             });
}

/// Every element of dst becomes `value`, converted once.
template <class D, int R, class Value>
void fill(View<D, R> const& dst, Value value) {
  const D stored = convert<D>(value);
  detail::for_each_run<R, 1>(dst.shape, {dst.stride}, 1, [=](index_t n, index_t const* at, index_t const* step) {
    D* d = dst.data + at[0];
    for (index_t i = 0; i < n; ++i) d[i * step[0]] = stored;
  });
}

namespace ops {

/// `count` elements from one dense run to another.
template <class T>
void copy_n(T const* src, T* dst, index_t count) {
  tilefoundry::copy(make_view<1>(src, {count}), make_view<1>(dst, {count}));
}

using tilefoundry::copy;
using tilefoundry::fill;

}  // namespace ops
}  // namespace tilefoundry
