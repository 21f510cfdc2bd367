/// \file mbarrier.cuh
/// Shared-memory barriers that count arrivals and bytes (sm_90), and the two-sided ring over them.
///
/// The header compiles for older chips; waiting, counting bytes and clusters need sm_90, and the assembler says so where
/// they are called.
#pragma once

#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {
namespace ops {

/// One barrier in shared memory, 8 bytes. One thread initialises it; a `barrier_init_fence` and a block barrier
/// come before its first use. Phases alternate 0, 1, 0, ...; `wait(p)` returns once phase p has completed.
struct alignas(8) mbarrier {
  uint64_t word;

  __device__ unsigned address() { return static_cast<unsigned>(__cvta_generic_to_shared(&word)); }

  /// Expect `arrivals` arrivals per phase.
  __device__ void init(unsigned arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(address()), "r"(arrivals) : "memory");
  }
  /// End the barrier's life, so that its memory serves other purposes. One thread, when nobody waits any more.
  __device__ void retire() { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(address()) : "memory"); }
  /// One arrival; writes before it are visible to those who wait.
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(address()) : "memory");
  }
  /// One arrival at the barrier of the same place in block `rank` of the cluster. It orders no memory between the
  /// blocks, which would cost a fence of the whole device: for slots that copies fill and wgmma reads.
  __device__ void arrive_at(unsigned rank) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(
            address()),
        "r"(rank)
        : "memory");
  }
  /// One arrival at the barrier of the same place in block `rank` of the cluster; what the calling thread wrote before,
  /// there too, is visible to those who `wait_published`.
  __device__ void publish_at(unsigned rank) {
    asm volatile(
        "{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1; "
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(address()),
        "r"(rank)
        : "memory");
  }
  /// `wait` for a phase whose arrivals came by `publish_at`.
  __device__ void wait_published(unsigned parity) {
    unsigned done = 0;
    while (done == 0)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(address()), "r"(parity)
          : "memory");
  }
  /// One arrival that also makes the phase wait for `bytes` bytes of bulk copies.
  __device__ void arrive_expect(unsigned bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(address()), "r"(bytes) : "memory");
  }
  /// Whether phase `parity` has completed; may suspend the thread for a while.
  __device__ bool try_wait(unsigned parity) {
    unsigned done;
    asm volatile(
        "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(address()), "r"(parity)
        : "memory");
    return done != 0;
  }
  /// Whether phase `parity` has completed, at once.
  __device__ bool is_done(unsigned parity) {
    unsigned done;
    asm volatile(
        "{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(done)
        : "r"(address()), "r"(parity)
        : "memory");
    return done != 0;
  }
  /// Block the calling thread until phase `parity` has completed.
  __device__ void wait(unsigned parity) {
    while (!try_wait(parity)) {
    }
  }
};

/// One side of the barrier of all threads of all blocks of a cluster, of one block where the launch has no clusters.
/// Every thread calls, and `cluster_wait` after it.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
/// The other side: what any thread of the cluster wrote before its `cluster_arrive` is visible to the calling thread.
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
/// Both sides at once; every thread calls.
__device__ inline void cluster_barrier() { cluster_arrive(), cluster_wait(); }
/// Blocks of the calling block's cluster; any thread.
__device__ inline unsigned cluster_blocks() {
  unsigned n;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
  return n;
}
/// The calling block's number in its cluster; any thread.
__device__ inline unsigned cluster_rank() {
  unsigned n;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(n));
  return n;
}

/// Make initialised barriers visible to bulk copies; by the initialising thread, before the block barrier.
__device__ inline void barrier_init_fence() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

/// A ring of `Stages` slots between one producing thread and `consumers` consuming arrivals.
///
/// Storage (`slots`) lies in shared memory and is initialised by one thread with `init`, then `barrier_init_fence`
/// and a block barrier. Each side walks with its own `position`, starting at 0.
template <int Stages>
struct ring {
  static_assert(Stages >= 1, "ops::ring: at least one stage");

  struct storage {
    mbarrier full[Stages], empty[Stages];
  };
  storage& slots;

  __device__ static int slot(unsigned position) { return static_cast<int>(position % Stages); }
  __device__ static unsigned parity(unsigned position) { return position / Stages & 1u; }

  __device__ void init(unsigned consumers) {
    for (int i = 0; i < Stages; ++i) {
      slots.full[i].init(1);
      slots.empty[i].init(consumers);
    }
  }
  __device__ void retire() {
    for (int i = 0; i < Stages; ++i) slots.full[i].retire(), slots.empty[i].retire();
  }
  /// Producer: wait until the slot is free, then announce `bytes`; returns the barrier to hand to the copies.
  __device__ mbarrier& acquire(unsigned position, unsigned bytes) {
    // The first round finds every slot free: a wait for the opposite phase of a fresh barrier passes.
    slots.empty[slot(position)].wait(parity(position) ^ 1u);
    slots.full[slot(position)].arrive_expect(bytes);
    return slots.full[slot(position)];
  }
  /// Consumer: wait until the slot's bytes have arrived.
  __device__ void wait(unsigned position) { slots.full[slot(position)].wait(parity(position)); }
  /// Consumer: give the slot back.
  __device__ void release(unsigned position) { slots.empty[slot(position)].arrive(); }
};

}  // namespace ops
}  // namespace tilefoundry
