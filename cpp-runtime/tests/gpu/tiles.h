// How the elementwise programs walk over an array of any length.
#pragma once

#include "harness.h"

constexpr int kPerThread = 8;

/// Apply `f(src view, dst view)` per thread: full tiles with static layouts, the tail with a dynamic one.
template <class S, class D, class F>
__global__ void unary_kernel(S const* src, D* dst, int n, F f) {
  const int at = (blockIdx.x * blockDim.x + threadIdx.x) * kPerThread;
  if (at + kPerThread <= n) {
    auto d = tilefoundry::as_gmem(dst + at, cute::Layout<cute::Int<kPerThread>>{});
    f(tilefoundry::as_gmem(src + at, cute::Layout<cute::Int<kPerThread>>{}), d);
  } else if (at < n) {
    auto d = tilefoundry::as_gmem(dst + at, cute::make_layout(n - at));
    f(tilefoundry::as_gmem(src + at, cute::make_layout(n - at)), d);
  }
}

/// Lengths around packs, warps and tiles; under a sanitizer those that take different paths.
inline std::vector<int> sizes() {
  if (harness::quick()) return {1, 7, 8, 9, 1025};
  return {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 127, 1025, 40009};
}
