/// \file reduce_threads.cuh
/// Combining register values over thread groups: shuffles, and a shared-memory workspace between warps.
#pragma once

#include <tilefoundry/runtime/cuda/ops/reduce_plan.cuh>

namespace tilefoundry {
namespace ops {
namespace reduce_impl {

/// Lanes of the calling thread's warp that exist in a block of `Threads`.
template <int Threads>
__device__ unsigned warp_mask(int thread) {
  if constexpr (Threads % 32 == 0) {
    return 0xffffffffu;
  } else {
    constexpr int whole = Threads / 32 * 32;
    return thread < whole ? 0xffffffffu : (1u << (Threads - whole)) - 1u;
  }
}

__device__ constexpr bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

/// Combine over a group that lies in one warp. Every existing lane of the warp takes part; every lane gets the
/// result, with equal bits in all lanes of a group.
template <class Op, int Extent, int Step, class A>
__device__ A combine_lanes(A value, int lane, unsigned mask) {
  if constexpr (is_power_of_two(Extent) && is_power_of_two(Step)) {
    CUTE_UNROLL
    for (int offset = Step; offset < Extent * Step; offset *= 2)
      value = Op::template join<A>(value, __shfl_xor_sync(mask, value, offset));
    return value;
  } else {
    const int first = lane - lane / Step % Extent * Step;
    A total = __shfl_sync(mask, value, first);
    CUTE_UNROLL
    for (int j = 1; j < Extent; ++j) total = Op::template join<A>(total, __shfl_sync(mask, value, first + j * Step));
    return total;
  }
}

/// Combine over the existing lanes of a warp; lane 0 gets the result.
template <class Op, class A>
__device__ A combine_warp(A value, int lane, int lanes, unsigned mask) {
  CUTE_UNROLL
  for (int offset = 16; offset > 0; offset /= 2) {
    const int other = lane ^ offset;
    const A theirs = __shfl_sync(mask, value, other < lanes ? other : lane);
    if (other < lanes) value = Op::template join<A>(value, theirs);
  }
  return value;
}

/// Where a thread writes its value and from where it reads its group's: slot numbers of one kept element.
struct Slots {
  bool writes;
  int own, first, step, count;
};

template <Tier T, int Extent, int Step, int Threads>
__device__ Slots slots_for(int thread) {
  if constexpr (T == Tier::warps) {
    constexpr int warps = Extent * Step / 32;
    const int warp = thread / 32, lane = thread % 32, group = warp / warps;
    return Slots{lane < Step, warp * Step + lane % Step, group * warps * Step + lane % Step, Step, warps};
  } else if constexpr (T == Tier::block) {
    return Slots{thread % 32 == 0, thread / 32, 0, 1, (Threads + 31) / 32};
  } else {
    return Slots{true, thread, thread - thread / Step % Extent * Step, Step, Extent};
  }
}

/// Combine `Kept` values per thread over one group. All threads of the block take part.
///
/// Tiers that use the workspace put a block barrier before its first write, between writes and reads, and after
/// the last read, so it may be shared by consecutive ops. It holds `slots_of(...) * Kept` values.
template <class Op, int Extent, int Step, int Threads, int Kept, class A>
__device__ void combine_group(A (&value)[Kept], A* workspace) {
  constexpr Tier tier = tier_of(ThreadGroup{Extent, Step}, Threads);
  const int thread = program_id<TopologyScope::thread>(), lane = thread % 32;
  const unsigned mask = warp_mask<Threads>(thread);
  CUTE_UNROLL
  for (int k = 0; k < Kept; ++k) {
    if constexpr (tier == Tier::lanes) {
      value[k] = combine_lanes<Op, Extent, Step>(value[k], lane, mask);
    } else if constexpr (tier == Tier::warps) {
      value[k] = combine_lanes<Op, 32 / Step, Step>(value[k], lane, mask);
    } else if constexpr (tier == Tier::block) {
      value[k] = combine_warp<Op>(value[k], lane, __popc(mask), mask);
    }
  }
  if constexpr (tier != Tier::lanes) {
    const Slots slots = slots_for<tier, Extent, Step, Threads>(thread);
    __syncthreads();
    if (slots.writes) {
      CUTE_UNROLL
      for (int k = 0; k < Kept; ++k) workspace[slots.own * Kept + k] = value[k];
    }
    __syncthreads();
    CUTE_UNROLL
    for (int k = 0; k < Kept; ++k) {
      A total = workspace[slots.first * Kept + k];
      for (int j = 1; j < slots.count; ++j)
        total = Op::template join<A>(total, workspace[(slots.first + j * slots.step) * Kept + k]);
      value[k] = total;
    }
    __syncthreads();
  }
}

}  // namespace reduce_impl
}  // namespace ops
}  // namespace tilefoundry
