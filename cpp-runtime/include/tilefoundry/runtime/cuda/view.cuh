/// \file view.cuh
/// `View`: a pointer with extents and strides, and loops over one that all threads of all blocks share.
#pragma once

#include <tilefoundry/runtime/cuda/fault.cuh>
#include <tilefoundry/runtime/cuda/topology.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {

/// Strided view of rank R. Strides count elements; a stride of 0 repeats. It owns nothing.
template <class T, int R>
struct View {
  T* data;
  index_t shape[R > 0 ? R : 1];
  index_t stride[R > 0 ? R : 1];

  __device__ index_t size() const {
    index_t n = 1;
    for (int d = 0; d < R; ++d) n *= shape[d];
    return n;
  }
  /// Offset of the element at row-major position `i` over the modes [First, R).
  template <int First = 0>
  __device__ index_t offset(index_t i) const {
    index_t at = 0;
    CUTE_UNROLL
    for (int d = R - 1; d >= First; --d) {
      at += i % shape[d] * stride[d];
      i /= shape[d];
    }
    return at;
  }
};

/// View of `data` with these extents and strides.
template <int R, class T>
__device__ View<T, R> make_view(T* data, index_t const (&shape)[R], index_t const (&stride)[R]) {
  View<T, R> view{data, {}, {}};
  for (int d = 0; d < R; ++d) view.shape[d] = shape[d], view.stride[d] = stride[d];
  return view;
}
/// View of one element.
template <class T>
__device__ View<T, 0> make_view(T* data) {
  return View<T, 0>{data, {1}, {0}};
}

namespace detail {

/// Number of the calling thread among all, and how many there are.
__device__ inline index_t global_thread() {
  return index_t(program_id<TopologyScope::cta>()) * index_t(blockDim.x) + program_id<TopologyScope::thread>();
}
__device__ inline index_t global_threads() { return index_t(gridDim.x) * index_t(blockDim.x); }

/// `body(i)` for i in [0, n), shared out over all threads.
template <class Body>
__device__ void share(index_t n, Body const& body) {
  for (index_t i = global_thread(); i < n; i += global_threads()) body(i);
}

/// `body(i, lane)` for i in [0, n), one warp each.
template <class Body>
__device__ void share_warps(index_t n, Body const& body) {
  for (index_t i = global_thread() / 32; i < n; i += global_threads() / 32) body(i, int(threadIdx.x % 32));
}

}  // namespace detail
}  // namespace tilefoundry
