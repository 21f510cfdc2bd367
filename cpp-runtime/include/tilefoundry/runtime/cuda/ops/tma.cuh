/// \file tma.cuh
/// Bulk copies by the copy engine (sm_90): dense runs, and tiles through a tensor map.
///
/// The header compiles for older chips; what it declares needs sm_90, and the assembler says so where it is called.
#pragma once

#include <tilefoundry/runtime/cuda/ops/mbarrier.cuh>

namespace tilefoundry {
namespace ops {
namespace tma_impl {

template <class T>
__device__ unsigned shared_address(T const* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

}  // namespace tma_impl

/// Copy `bytes` from gmem to smem; `arrived` counts them. One thread calls. Both addresses and the count are
/// multiples of 16.
__device__ inline void bulk_load(void* smem, void const* gmem, unsigned bytes, mbarrier& arrived) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                   tma_impl::shared_address(static_cast<char const*>(smem))),
               "l"(gmem), "r"(bytes), "r"(arrived.address())
               : "memory");
}

/// Copy `bytes` from smem to gmem. One thread calls, after `store_fence` by the writers and a barrier;
/// `bulk_store_wait` before the smem is reused or the kernel ends. Alignment as for `bulk_load`.
__device__ inline void bulk_store(void* gmem, void const* smem, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(gmem),
               "r"(tma_impl::shared_address(static_cast<char const*>(smem))), "r"(bytes)
               : "memory");
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

/// Make the calling thread's smem writes visible to the copy engine.
__device__ inline void store_fence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/// Wait until the calling thread's bulk stores have been written.
__device__ inline void bulk_store_wait() { asm volatile("cp.async.bulk.wait_group 0;" ::: "memory"); }

/// Bring a tensor map (a `__grid_constant__` parameter or global memory) into the descriptor cache. One thread calls.
__device__ inline void prefetch_map(void const* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

/// Copy one box of a tensor map to smem: coordinates in elements, innermost first. One thread calls; smem starts at
/// a multiple of 128 bytes (1024 where the map swizzles by 128).
template <class... Coord>
__device__ void tma_load(void* smem, void const* map, mbarrier& arrived, Coord... coord) {
  constexpr int rank = sizeof...(Coord);
  static_assert(rank >= 1 && rank <= 3, "ops::tma_load: boxes of one to three modes");
  const unsigned to = tma_impl::shared_address(static_cast<char const*>(smem)), bar = arrived.address();
  const int at[] = {static_cast<int>(coord)...};
  if constexpr (rank == 1) {
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" ::
                     "r"(to),
                 "l"(map), "r"(bar), "r"(at[0])
                 : "memory");
  } else if constexpr (rank == 2) {
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(to),
        "l"(map), "r"(bar), "r"(at[0]), "r"(at[1])
        : "memory");
  } else {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];" ::"r"(
            to),
        "l"(map), "r"(bar), "r"(at[0]), "r"(at[1]), "r"(at[2])
        : "memory");
  }
}

/// As `tma_load` for a box of three modes, into the same place of every block in `blocks` (a bit each) of the cluster;
/// each block's barrier at the place of `arrived` counts the bytes.
__device__ inline void tma_load_multicast(void* smem, void const* map, mbarrier& arrived, unsigned short blocks, int x,
                                          int y, int z) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%3, %4, "
      "%5}], [%2], %6;" ::"r"(tma_impl::shared_address(static_cast<char const*>(smem))),
      "l"(map), "r"(arrived.address()), "r"(x), "r"(y), "r"(z), "h"(blocks)
      : "memory");
}

}  // namespace ops
}  // namespace tilefoundry
