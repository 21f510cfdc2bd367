/// \file matmul_halves.cuh
/// Two blocks of a cluster that each sum half of k for one tile, and how the halves come together.
#pragma once

#include <tilefoundry/runtime/cuda/ops/mbarrier.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// The exchange of one block with the other of its pair, once per tile. Each thread has the same places of the tile as
/// the same thread of the other block, summed over its own half of k. It hands over its sums of half of the columns
/// and adds what it is handed to those of the other half; so each block finishes half of the columns, and the sum of
/// two halves does not depend on who adds.
///
/// The sums pass through the memory of the slots at `memory`: a KiB for each sum that a thread hands over, which
/// nobody may fetch into between the last product of a tile and `done`.
struct halves {
  /// In shared memory, at the same place in both blocks.
  struct storage {
    mbarrier open;    ///< the other block's warps have read their last slot: it may be written to
    mbarrier filled;  ///< the other block's sums lie here
    mbarrier done;    ///< they have been read: slots may be filled again
  };
  static constexpr unsigned threads = 256;
  storage& barriers;

  __device__ void init(unsigned warps) const {
    barriers.open.init(warps);
    barriers.filled.init(threads);
    barriers.done.init(threads);
  }
  __device__ void retire() const { barriers.open.retire(), barriers.filled.retire(), barriers.done.retire(); }

  /// All warps, after their last product of tile number `turn` of the block, one lane each: their slots are free.
  __device__ void open(unsigned other) const { barriers.open.publish_at(other); }

  /// All threads: hand `given` to block `other`, and add what it hands to `kept`; then slots may be filled again.
  template <int N>
  __device__ void swap(float (&kept)[N], float const (&given)[N], void* memory, unsigned other, int thread,
                       unsigned turn) const {
    barriers.open.wait_published(turn & 1u);
    const unsigned to = address_in(other, static_cast<unsigned>(__cvta_generic_to_shared(memory))) + thread * 16;
    CUTE_UNROLL
    for (int i = 0; i < N; i += 4)
      asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to + i * (threads * 4)), "f"(given[i]),
                   "f"(given[i + 1]), "f"(given[i + 2]), "f"(given[i + 3])
                   : "memory");
    barriers.filled.publish_at(other);
    barriers.filled.wait_published(turn & 1u);
    auto const* const from = static_cast<float4 const*>(memory) + thread;
    CUTE_UNROLL
    for (int i = 0; i < N; i += 4) {
      const float4 theirs = from[i / 4 * static_cast<int>(threads)];
      kept[i] += theirs.x, kept[i + 1] += theirs.y, kept[i + 2] += theirs.z, kept[i + 3] += theirs.w;
    }
    // The copy engine writes here next.
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    barriers.done.arrive();
  }

  /// The fetching thread, before it fills slots for tile number `turn` + 1.
  __device__ void wait(unsigned turn) const { barriers.done.wait(turn & 1u); }

 private:
  static __device__ unsigned address_in(unsigned block, unsigned own) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"(block));
    return there;
  }
};

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
