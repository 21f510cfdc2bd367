/// \file selection.cuh
/// `ops::argmax` and `ops::topk` along the last mode, a warp per row, a block per long row of `argmax`. NaN counts as the
/// greatest; equals go to the lower index.
#pragma once

#include <tilefoundry/runtime/cuda/view.cuh>

namespace tilefoundry {
namespace ops {
namespace detail {

/// Whether a comes strictly before b in descending order.
template <class T>
__device__ bool above(T a, T b) {
  return a > b || (a != a && b == b);
}

template <class T>
struct Candidate {
  T value;
  index_t at;  ///< -1: none
};

/// Whether x comes before y: the greater (or lesser) value, then the lower index; any before none.
template <class T>
__device__ bool precedes(Candidate<T> const& x, Candidate<T> const& y, bool largest) {
  if (x.at < 0 || y.at < 0) return y.at < 0 && x.at >= 0;
  if (above(x.value, y.value)) return largest;
  if (above(y.value, x.value)) return !largest;
  return x.at < y.at;
}

/// The better of the calling lane's candidate and those of its warp; valid in all lanes.
template <class T>
__device__ Candidate<T> best_of_warp(Candidate<T> best, bool largest) {
  CUTE_UNROLL
  for (int offset = 16; offset > 0; offset /= 2) {
    Candidate<T> other;
    if constexpr (sizeof(T) >= 4) {
      other.value = __shfl_xor_sync(0xffffffffu, best.value, offset);
    } else {
      other.value = static_cast<T>(__shfl_xor_sync(0xffffffffu, static_cast<int>(best.value), offset));
    }
    other.at = __shfl_xor_sync(0xffffffffu, static_cast<long long>(best.at), offset);
    if (precedes(other, best, largest)) best = other;
  }
  return best;
}

/// The first element of a row behind `last` (none: behind nothing); valid in all lanes.
template <class S, class T = compute_t<stdx::remove_const_t<S>>>
__device__ Candidate<T> next_of(S* row, index_t n, index_t step, int lane, Candidate<T> last, bool largest) {
  Candidate<T> best{T(0), -1};
  for (index_t i = lane; i < n; i += 32) {
    const Candidate<T> own{widen(stdx::remove_const_t<S>(row[i * step])), i};
    if ((last.at < 0 || precedes(last, own, largest)) && precedes(own, best, largest)) best = own;
  }
  return best_of_warp(best, largest);
}

/// From so many elements on a row is a block's work.
inline constexpr index_t long_row = 4096;

/// The greatest of the elements of a row that thread `thread` of `threads` sees: packs in turn where the row lies in
/// packs, then what is left.
template <class S, class T = compute_t<stdx::remove_const_t<S>>>
__device__ Candidate<T> greatest_seen(S* row, index_t n, index_t step, index_t thread, index_t threads) {
  using Element = stdx::remove_const_t<S>;
  constexpr int width = 16 / int(sizeof(S));
  using Pack = ::tilefoundry::detail::Pack<Element, width>;
  Candidate<T> best{T(0), -1};
  auto see = [&](Element value, index_t i) {
    const Candidate<T> own{widen(value), i};
    if (precedes(own, best, true)) best = own;
  };
  const index_t packs = step == 1 && ::tilefoundry::detail::is_aligned<16>(row) ? n / width : 0;
  for (index_t p = thread; p < packs; p += threads) {
    const Pack pack = reinterpret_cast<Pack const*>(row)[p];
    CUTE_UNROLL
    for (int i = 0; i < width; ++i) see(pack.value[i], p * width + i);
  }
  for (index_t i = packs * width + thread; i < n; i += threads) see(Element(row[i * step]), i);
  return best;
}

/// The greatest of a row; by all threads of a block, valid in its first warp.
template <class S, class T = compute_t<stdx::remove_const_t<S>>>
__device__ Candidate<T> greatest_of_block(S* row, index_t n, index_t step) {
  __shared__ Candidate<T> of_warps[32];
  const int thread = int(threadIdx.x), warps = int(blockDim.x) / 32;
  const Candidate<T> own = best_of_warp(greatest_seen(row, n, step, thread, index_t(blockDim.x)), true);
  __syncthreads();  // the last row's are read
  if (thread % 32 == 0) of_warps[thread / 32] = own;
  __syncthreads();
  return best_of_warp(thread % 32 < warps ? of_warps[thread % 32] : Candidate<T>{T(0), -1}, true);
}

}  // namespace detail

/// dst[row] = index of the greatest element of src[row, :]; dst has one mode less. All threads of all blocks call, in
/// whole warps; the result is visible to other threads after a barrier over all of them. No workspace.
template <class S, int R>
__device__ void argmax(View<S, R> const& src, View<i64, R - 1> const& dst) {
  static_assert(R >= 1, "ops::argmax: needs a mode to run along");
  using T = compute_t<stdx::remove_const_t<S>>;
  const index_t n = src.shape[R - 1];
  View<S, R> first = src;
  first.shape[R - 1] = 1;
  if (n >= detail::long_row) {
    for (index_t row = blockIdx.x; row < dst.size(); row += gridDim.x) {
      const auto best = detail::greatest_of_block(src.data + first.offset(row), n, src.stride[R - 1]);
      if (threadIdx.x == 0) dst.data[dst.offset(row)] = best.at;
    }
    return;
  }
  ::tilefoundry::detail::share_warps(dst.size(), [&](index_t row, int lane) {
    const auto best = detail::next_of(src.data + first.offset(row), n, src.stride[R - 1], lane,
                                      detail::Candidate<T>{T(0), -1}, true);
    if (lane == 0) dst.data[dst.offset(row)] = best.at;
  });
}

/// values[row, :] and indices[row, :] = the k greatest (or least) elements of src[row, :], best first; k is at most the
/// length of a row. All threads of all blocks call, in whole warps; the result is visible to other threads after a
/// barrier over them. No workspace.
template <class S, class V, int R>
__device__ void topk(View<S, R> const& src, View<V, R> const& values, View<i64, R> const& indices, bool largest) {
  using T = compute_t<stdx::remove_const_t<S>>;
  const index_t n = src.shape[R - 1], k = values.shape[R - 1];
  View<S, R> from = src;
  View<V, R> to = values;
  View<i64, R> at = indices;
  from.shape[R - 1] = to.shape[R - 1] = at.shape[R - 1] = 1;
  ::tilefoundry::detail::share_warps(from.size(), [&](index_t row, int lane) {
    S* const own = src.data + from.offset(row);
    const index_t v = to.offset(row), i = at.offset(row);
    detail::Candidate<T> last{T(0), -1};
    for (index_t j = 0; j < k; ++j) {
      last = detail::next_of(own, n, src.stride[R - 1], lane, last, largest);
      if (lane == 0) {
        values.data[v + j * values.stride[R - 1]] = own[last.at * src.stride[R - 1]];
        indices.data[i + j * indices.stride[R - 1]] = last.at;
      }
    }
  });
}

}  // namespace ops
}  // namespace tilefoundry
