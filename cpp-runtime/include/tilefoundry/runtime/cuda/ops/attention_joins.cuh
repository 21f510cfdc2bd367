/// \file attention_joins.cuh
/// How partial softmax sums of warps, and of the blocks of a cluster, come together in a fixed order.
#pragma once

#include <tilefoundry/runtime/cuda/dtype.cuh>
#include <tilefoundry/runtime/cuda/fault.cuh>
#include <tilefoundry/runtime/cuda/ops/attention_scores.cuh>
#include <tilefoundry/runtime/cuda/ops/mbarrier.cuh>
#include <tilefoundry/runtime/cuda/topology.cuh>

namespace tilefoundry {
namespace ops {

/// Put before a kernel that calls `ops::attention` in a multiple of eight blocks: eight neighbours then work on the same
/// rows. Chips without clusters let each block work alone.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#define TILEFOUNDRY_ATTENTION_BLOCKS __cluster_dims__(8, 1, 1)
#else
#define TILEFOUNDRY_ATTENTION_BLOCKS
#endif

namespace attention_impl {

/// The calling block's group, the blocks that work together, among the `count` groups of the launch.
struct Group {
  int size, rank;
  index_t number, count;
};
__device__ inline Group blocks_together() {
  Group group{1, 0, index_t(blockIdx.x), index_t(gridDim.x)};
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  group.size = static_cast<int>(cluster_blocks()), group.rank = static_cast<int>(cluster_rank());
  group.number /= group.size, group.count /= group.size;
#endif
  return group;
}

/// `own`, an object in shared memory, as block `rank` of the group has it. All blocks have the same objects.
template <class Sum>
__device__ Sum read_in(Group const& group, int rank, Sum const& own) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (group.size > 1) {
    unsigned there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there)
                 : "r"(static_cast<unsigned>(__cvta_generic_to_shared(&own))), "r"(rank));
    Sum out;
    if constexpr (sizeof(Sum) == 8) {
      asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(out) : "r"(there) : "memory");
    } else {
      asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(out) : "r"(there) : "memory");
    }
    return out;
  }
#endif
  return own;
}

/// Wait for all threads of the group; what they wrote to shared memory before is visible after it.
__device__ inline void group_barrier(Group const& group) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  if (group.size > 1) {
    cluster_barrier();
    return;
  }
#endif
  __syncthreads();
}

/// The sums of `Rows` rows of `Width` values, first over the warps of a block, then over the blocks of a group.
template <class Sum, int Rows, int Width, int Threads>
struct RowJoins {
  static_assert(Threads % 32 == 0, "ops::attention: a block is whole warps");
  static constexpr int warps = Threads / 32;

  /// In shared memory.
  struct storage {
    Sum warp_top[warps][Rows], warp_total[warps][Rows];
    Sum warp_mixed[warps][Rows][Width];
    Sum top[Rows], total[Rows];
    Sum mixed[Rows][Width];
  };
  static_assert(sizeof(storage) <= 48 * 1024, "ops::attention: fewer rows at a time, so that their sums fit");

  storage& held;
  Group group;

  /// `out(row, place, value)` for every value of the rows, each by one thread of the group. All threads of the group
  /// call, each warp after it has written its sums; afterwards they may be written again.
  template <class Out>
  __device__ void finish(Out const& out) const {
    const int thread = static_cast<int>(program_id<TopologyScope::thread>());
    __syncthreads();
    for (int i = thread; i < Rows * Width; i += Threads) join_warps(i / Width, i % Width);
    group_barrier(group);
    for (int i = group.rank * Threads + thread; i < Rows * Width; i += group.size * Threads)
      out(i / Width, i % Width, joined(i / Width, i % Width));
    // Nobody overwrites, or leaves, while others read here.
    group_barrier(group);
  }

 private:
  __device__ void join_warps(int r, int e) const {
    Sum highest = held.warp_top[0][r];
    for (int w = 1; w < warps; ++w) highest = held.warp_top[w][r] > highest ? held.warp_top[w][r] : highest;
    const Sum base = base_of(highest);
    Sum total = Sum(0), value = Sum(0);
    for (int w = 0; w < warps; ++w) {
      const Sum part = exp2_op{}(held.warp_top[w][r] - base);
      total += held.warp_total[w][r] * part;
      value += held.warp_mixed[w][r][e] * part;
    }
    held.mixed[r][e] = value;
    if (e == 0) held.top[r] = highest, held.total[r] = total;
  }

  __device__ Sum joined(int r, int e) const {
    Sum highest = held.top[r];
    for (int b = 0; b < group.size; ++b) {
      const Sum top = read_in(group, b, held.top[r]);
      highest = top > highest ? top : highest;
    }
    const Sum base = base_of(highest);
    Sum total = Sum(0), value = Sum(0);
    for (int b = 0; b < group.size; ++b) {
      const Sum part = exp2_op{}(read_in(group, b, held.top[r]) - base);
      total += read_in(group, b, held.total[r]) * part;
      value += read_in(group, b, held.mixed[r][e]) * part;
    }
    // A row that saw no key has no weights; NaN has.
    return total == Sum(0) ? Sum(0) : value / total;
  }
};

}  // namespace attention_impl
}  // namespace ops
}  // namespace tilefoundry
