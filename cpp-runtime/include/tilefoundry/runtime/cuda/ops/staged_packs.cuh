/// \file staged_packs.cuh
/// `ops::StagedPacks`: what a thread keeps of a row that is too wide for its registers.
#pragma once

#include <tilefoundry/runtime/cuda/dynamic_shared.cuh>
#include <tilefoundry/runtime/cuda/ops/copy_async.cuh>

namespace tilefoundry {
namespace ops {

/// Packs of the calling thread in shared memory, which no other thread reads: number i of thread `lane` of `Threads`
/// lies at i * Threads + lane, so that neighbouring threads use neighbouring banks.
///
/// `fetch` copies without waiting; after `cp_async_commit` and `cp_async_wait` the calling thread, and no other, may
/// read what it fetched. No barrier is needed.
template <class P, int Threads>
struct StagedPacks {
  static_assert(sizeof(P) == 4 || sizeof(P) == 8 || sizeof(P) == 16,
                "ops::StagedPacks: a pack is one asynchronous copy of 4, 8 or 16 bytes");
  P* own;

  __device__ StagedPacks(void* memory, int lane) : own(static_cast<P*>(memory) + lane) {}

  __device__ void fetch(int i, P const* from) const {
    copy_async_impl::cp_async<int(sizeof(P))>(from, own + i * Threads);
  }
  __device__ P operator[](int i) const { return own[i * Threads]; }
};

}  // namespace ops
}  // namespace tilefoundry
