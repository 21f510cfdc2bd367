/// \file reduce_tags.cuh
/// Combine tags of `ops::reduce`: what is done to each element and to two partial results. NaN propagates.
#pragma once

#include <tilefoundry/runtime/cuda/ops/binary_tags.cuh>

namespace tilefoundry {
namespace ops {

struct sum_op {
  template <class A>
  static __device__ constexpr A identity() {
    return A(0);
  }
  template <class A>
  static __device__ A map(A x) {
    return x;
  }
  template <class A>
  static __device__ A join(A a, A b) {
    return add_op{}(a, b);
  }
};
/// The sum, divided once by the number of elements that were reduced.
struct mean_op : sum_op {};
struct max_op {
  template <class A>
  static __device__ constexpr A identity() {
    if constexpr (detail::real<A>) {
      return -stdx::numeric_limits<A>::infinity();
    } else {
      return stdx::numeric_limits<A>::lowest();
    }
  }
  template <class A>
  static __device__ A map(A x) {
    return x;
  }
  template <class A>
  static __device__ A join(A a, A b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (stdx::is_same_v<A, float>) {
      float out;
      asm("max.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
      return out;
    }
#endif
    return maximum_op{}(a, b);
  }
};
struct min_op {
  template <class A>
  static __device__ constexpr A identity() {
    if constexpr (detail::real<A>) {
      return stdx::numeric_limits<A>::infinity();
    } else {
      return stdx::numeric_limits<A>::max();
    }
  }
  template <class A>
  static __device__ A map(A x) {
    return x;
  }
  template <class A>
  static __device__ A join(A a, A b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (stdx::is_same_v<A, float>) {
      float out;
      asm("min.NaN.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
      return out;
    }
#endif
    return minimum_op{}(a, b);
  }
};
/// The largest magnitude.
struct absmax_op : max_op {
  template <class A>
  static __device__ A map(A x) {
    return abs_op{}(x);
  }
};

}  // namespace ops
}  // namespace tilefoundry
