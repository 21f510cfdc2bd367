/// \file sync.cuh
/// `ops::sync`: the mesh-scoped barrier, one entry for all kinds.
#pragma once

#include <tilefoundry/runtime/cuda/topology.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {
namespace ops {

/// Who meets at a barrier.
enum class SyncKind {
  cta,    ///< all threads of the block
  warp,   ///< the calling thread's warp: each warp of the block by itself
  lanes,  ///< the lanes `Mask` of the warp that starts at thread `Base`
  named,  ///< threads [Base, Base + Count), whole warps, on hardware barrier `BarId` (1 to 15)
  grid,   ///< all blocks of a cooperative launch, through `grid_bar`
};

namespace sync_impl {

/// Arrive at a counter pair and wait for the other blocks. Word 0 counts arrivals and is reset by the last block;
/// word 1 is the number of the round, so the pair serves any number of rounds, and wraps harmlessly.
__device__ inline void grid_barrier(unsigned int* pair) {
  // Interleaving: every block reads the round before it arrives, so the round cannot move on unseen; the last block
  // resets the count before it opens the next round, and nobody arrives for that one before it sees it open.
  __syncthreads();
  if (threadIdx.x == 0) {
    const unsigned int blocks = gridDim.x * gridDim.y * gridDim.z;
    unsigned int round, arrived;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(round) : "l"(pair + 1) : "memory");
    asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], 1;" : "=r"(arrived) : "l"(pair) : "memory");
    if (arrived == blocks - 1) {
      asm volatile("st.relaxed.gpu.global.u32 [%0], 0;" ::"l"(pair) : "memory");
      asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(pair + 1) : "memory");
    } else {
      unsigned int now;
      do {
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(pair + 1) : "memory");
      } while (now == round);
    }
  }
  __syncthreads();
}

}  // namespace sync_impl

/// Barrier over a set of threads; memory written before it by a participant is seen by the others after it (in the
/// block's scope; for `grid` in the device's).
///
/// Any thread of the block may call: threads outside the set pass through. `grid`: all threads of all blocks call,
/// every block is resident (a cooperative launch), and `grid_bar` points at two words of global memory that were
/// zero before the first use and belong to launches that never overlap. No workspace.
template <SyncKind Kind, int Base = 0, int Count = 0, unsigned Mask = 0u, int BarId = 0>
__device__ void sync(unsigned int* grid_bar = nullptr) {
  static_cast<void>(grid_bar);
  if constexpr (Kind == SyncKind::cta) {
    __syncthreads();
  } else if constexpr (Kind == SyncKind::warp) {
    __syncwarp();
  } else if constexpr (Kind == SyncKind::lanes) {
    static_assert(Mask != 0, "ops::sync: lanes needs a mask of the participating lanes");
    static_assert(Base % 32 == 0, "ops::sync: lanes counts from the first thread of a warp; Base must be a multiple of 32");
    const int lane = static_cast<int>(threadIdx.x) - Base;
    if (lane >= 0 && lane < 32 && (Mask >> lane & 1u)) __syncwarp(Mask);
  } else if constexpr (Kind == SyncKind::named) {
    static_assert(Base % 32 == 0 && Count % 32 == 0 && Count > 0,
                  "ops::sync: a named barrier takes whole warps; Base and Count must be multiples of 32");
    static_assert(BarId >= 1 && BarId <= 15, "ops::sync: BarId must be 1 to 15; 0 is the block's own barrier");
    const int thread = static_cast<int>(threadIdx.x) - Base;
    if (thread >= 0 && thread < Count)
      asm volatile("barrier.sync %0, %1;" ::"n"(BarId), "n"(Count) : "memory");
  } else {
    static_assert(Kind == SyncKind::grid, "ops::sync: unknown kind of barrier; use one of SyncKind");
    sync_impl::grid_barrier(grid_bar);
  }
}

/// Put before a kernel that calls `ops::meet_in_cluster` and is launched in eight blocks.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TILEFOUNDRY_MEETING_BLOCKS __cluster_dims__(8, 1, 1)
#else
#define TILEFOUNDRY_MEETING_BLOCKS
#endif

/// Barrier over all threads of the calling block's cluster, each of which calls; global memory written before it by any
/// of them is seen by the others after it. Needs sm_90. No workspace.
__device__ inline void meet_in_cluster() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
  asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

}  // namespace ops
}  // namespace tilefoundry
