/// \file launch_order.cuh
/// The order of a stream's launches where their blocks may overlap.
#pragma once

#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {

/// Wait until the launches before this one have completed, and let blocks of the next one be placed as soon as all of
/// this one's run. Every thread calls, before it touches global memory; what earlier launches wrote is visible to it
/// after. Returns at once where the launch does not overlap others, and on chips before sm_90. No workspace.
__device__ inline void await_earlier_launches() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

}  // namespace tilefoundry
