/// \file fault.cuh
/// What a kernel does when a value breaks the program's contract: it says what and stops the device's work.
///
/// The host cannot be told without waiting for the device, so the next call of the framework on the device reports
/// the error, as for its own device-side assertions.
#pragma once

#include <tilefoundry/runtime/cuda/traits.cuh>

#if !defined(__CUDACC_RTC__)
#include <cstdio>
#endif

namespace tilefoundry {

using index_t = int64_t;

#ifdef INT64_C
#undef INT64_C
#endif
#define INT64_C(value) int64_t(value##LL)

/// Print `message` and stop. Any thread; does not return.
__device__ inline void device_fail(const char* message) {
  printf("tilefoundry: %s\n", message);
  __trap();
}

/// Indices that a kernel looks up; one outside its extent stops the kernel.
struct IndexFault {
  const char* op;

  /// `index`, which must lie in [0, extent).
  __device__ index_t bounded(index_t index, index_t extent) const {
    if (static_cast<uint64_t>(index) >= static_cast<uint64_t>(extent)) {
      printf("tilefoundry: tf.%s: the index %lld is outside the extent %lld\n", op, static_cast<long long>(index),
             static_cast<long long>(extent));
      __trap();
    }
    return index;
  }
};

}  // namespace tilefoundry
