/// \file view_copy.cuh
/// `ops::copy` and `ops::insert_window` over strided views; all threads of all blocks share the elements.
#pragma once

#include <tilefoundry/runtime/cuda/view.cuh>

namespace tilefoundry {
namespace ops {

/// dst = src, element by element. All threads of all blocks call; an element is visible to the thread that wrote it at
/// once, to others after a barrier over them. No workspace.
template <class S, class D, int R>
__device__ void copy(View<S, R> const& src, View<D, R> const& dst) {
  ::tilefoundry::detail::share(dst.size(), [&](index_t i) { dst.data[dst.offset(i)] = src.data[src.offset(i)]; });
}

/// out = dst with the window that starts at `start` replaced by update; the window lies inside. Where out is dst, only
/// the window is written. All threads of all blocks call; the result is valid as for `copy`. No workspace.
template <class S, class U, class D, int R, class... Start>
__device__ void insert_window(View<S, R> const& dst, View<U, R> const& update, View<D, R> const& out, Start... start) {
  const index_t first[] = {index_t(start)...};
  if (dst.data == out.data) {
    ::tilefoundry::detail::share(update.size(), [&](index_t i) {
      index_t rest = i, to = 0, from = 0;
      CUTE_UNROLL
      for (int d = R - 1; d >= 0; --d) {
        const index_t w = rest % update.shape[d];
        rest /= update.shape[d];
        to += (first[d] + w) * out.stride[d];
        from += w * update.stride[d];
      }
      out.data[to] = update.data[from];
    });
    return;
  }
  ::tilefoundry::detail::share(out.size(), [&](index_t i) {
    index_t rest = i, from = 0, inside = 0;
    bool in_window = true;
    CUTE_UNROLL
    for (int d = R - 1; d >= 0; --d) {
      const index_t c = rest % out.shape[d], w = c - first[d];
      rest /= out.shape[d];
      in_window = in_window && w >= 0 && w < update.shape[d];
      from += c * dst.stride[d];
      inside += w * update.stride[d];
    }
    out.data[out.offset(i)] = in_window ? update.data[inside] : dst.data[from];
  });
}

}  // namespace ops
}  // namespace tilefoundry
