/// \file attention_fetch.cuh
/// The fetching side of the attention tier with rings: where tiles lie in shared memory, the barriers around them, and
/// the warpgroup that fills them by cp.async.
#pragma once

#include <tilefoundry/runtime/cuda/ops/attention_task.cuh>
#include <tilefoundry/runtime/cuda/ops/copy_async.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_tiles.cuh>
#include <tilefoundry/runtime/cuda/ops/mbarrier.cuh>
#include <tilefoundry/runtime/cuda/ops/wgmma.cuh>

namespace tilefoundry {
namespace ops {
namespace attention_tiles_impl {

/// Extents and places in shared memory, for 16-bit elements.
template <int Dim, int Width>
struct RingShape {
  static constexpr int dim = Dim, width = Width, workers = 2;
  static constexpr int rows = 64 * workers, keys = 128, stages = 2;
  /// Bytes of 64 elements of every key, and of every query of a warpgroup.
  static constexpr int chunk = keys * 128, query_chunk = 64 * 128;
  static constexpr int query_bytes = rows * Dim * 2, key_bytes = keys * Dim * 2, value_bytes = keys * Width * 2;
  static constexpr int keys_at = query_bytes, values_at = keys_at + stages * key_bytes;
  static constexpr int barriers_at = values_at + stages * value_bytes, barriers = 128;
  /// What a warp hands over through: 16 rows, whose distance puts four of them into different banks.
  static constexpr int staged_columns = 64, staged_pitch = staged_columns + 8;
  static constexpr int staged_at = barriers_at + barriers, staged_bytes = 16 * staged_pitch * 4;
  static constexpr int bytes = staged_at + workers * 4 * staged_bytes;
  static_assert(bytes <= 227 * 1024, "ops::attention: the tier's memory exceeds a block's");
};

/// Which barriers say that tiles are there and that they are free, and how far the calling side has come.
template <class Shape>
struct AttentionRings {
  struct storage {
    typename ring<1>::storage queries;
    typename ring<Shape::stages>::storage keys, values;
    mbarrier turns[2];
  };
  static_assert(sizeof(storage) <= Shape::barriers, "ops::attention: more barriers than memory set aside for them");
  static constexpr unsigned fetching_warps = 4, working_warps = Shape::workers * 4;

  ring<1> queries;
  ring<Shape::stages> keys, values;
  mbarrier (&turns)[2];
  unsigned query_turn = 0, key_turn = 0;

  __device__ explicit AttentionRings(storage& held)
      : queries{held.queries}, keys{held.keys}, values{held.values}, turns(held.turns) {}

  /// One thread; a block barrier follows.
  __device__ void init() {
    init_ring(queries.slots), init_ring(keys.slots), init_ring(values.slots);
    for (mbarrier& one : turns) one.init(4);
    barrier_init_fence();
  }
  template <class Storage>
  static __device__ void init_ring(Storage& slots) {
    for (mbarrier& full : slots.full) full.init(fetching_warps);
    for (mbarrier& empty : slots.empty) empty.init(working_warps);
  }
  /// One thread, when all others are through.
  __device__ void retire() {
    queries.retire(), keys.retire(), values.retire();
    for (mbarrier& one : turns) one.retire();
  }

  /// The calling warp is done with a slot.
  template <int Stages>
  static __device__ void release(ring<Stages> pipe, unsigned turn) {
    if (threadIdx.x % 32 == 0) pipe.release(turn);
  }

  /// Wait until the other working warpgroup has its products under way; the first one starts. They take a turn for all
  /// keys but a tile's first.
  __device__ void await_turn(int group) {
    const unsigned turn = key_turn - query_turn - 1;
    turns[group].wait((turn & 1u) ^ (group == 0 ? 1u : 0u));
  }
  __device__ void pass_turn(int group) {
    if (threadIdx.x % 32 == 0) turns[group ^ 1].arrive();
  }
};

/// Call `body(tile)` on the calling block's tiles. Every second round goes backwards, so that a block's tiles add up to
/// as many keys as another's where earlier ones have more.
template <int Rows, int Keys, class Task, class Body>
__device__ void for_each_tile(Task const& task, Body const& body) {
  const int items = task.batch * task.shared * ((task.rows() + Rows - 1) / Rows);
  const int blocks = static_cast<int>(program_dim<TopologyScope::cta>());
  const int block = static_cast<int>(program_id<TopologyScope::cta>());
  int step = 2 * (blocks - block) - 1;
  for (int item = block; item < items; item += step, step = 2 * blocks - step) body(tile_of<Rows, Keys>(task, item));
}

/// T: the operands' 16-bit type. 128 threads.
template <class T, class Shape>
struct AttentionFetch {
  using Rings = AttentionRings<Shape>;
  static constexpr int keys = Shape::keys, rows = Shape::rows, dim = Shape::dim, width = Shape::width;

  /// What a thread has asked for and not yet announced.
  struct Announced {
    mbarrier* next = nullptr;

    /// All that was asked for since the last call is `full`'s; what was asked for before is there now.
    __device__ void follow(mbarrier& full) {
      cp_async_commit();
      cp_async_wait<1>();
      announce();
      next = &full;
    }
    __device__ void finish() {
      cp_async_wait<0>();
      announce();
    }
    /// Wait until a slot is free; what was asked for is announced meanwhile.
    __device__ void await(mbarrier& empty, unsigned parity) {
      if (empty.is_done(parity)) return;
      finish();
      empty.wait(parity);
    }
    __device__ void announce() {
      atom::proxy_fence();
      __syncwarp();
      if (next != nullptr && threadIdx.x % 32 == 0) next->arrive();
      next = nullptr;
    }
  };

  /// The tiles of all rows that the block works on, in the order in which they are used.
  template <class Task>
  static __device__ void run(Task const& task, char* smem, Rings& rings) {
    const bool q_pieces = task.q.in_pieces(), k_pieces = task.k.in_pieces(), v_pieces = task.v.in_pieces();
    Announced announced;
    unsigned value_turn = 0;
    for_each_tile<rows, keys>(task, [&](RowTile const& tile) {
      if (tile.keys.from >= tile.keys.to) return;
      fetch_queries(task, tile, q_pieces, smem, rings, announced);
      // The scores of two tiles are computed before the values of the first one are needed.
      for (int start = tile.keys.from; start < tile.keys.to + keys; start += keys) {
        if (start < tile.keys.to)
          fetch<dim>(task.k, tile, start, k_pieces, smem + Shape::keys_at, rings.keys, rings.key_turn, announced);
        if (start > tile.keys.from)
          fetch<width>(task.v, tile, start - keys, v_pieces, smem + Shape::values_at, rings.values, value_turn, announced);
      }
    });
    announced.finish();
  }

  template <class Task>
  static __device__ void fetch_queries(Task const& task, RowTile const& tile, bool pieces, char* smem, Rings& rings,
                                       Announced& announced) {
    announced.await(rings.queries.slots.empty[0], rings.queries.parity(rings.query_turn++) ^ 1u);
    constexpr int across = dim / 8, step = 128 / across;
    const int thread = static_cast<int>(threadIdx.x) % 128, piece = thread % across, first = tile.first + thread / across;
    int head = tile.group * (task.heads / task.shared) + first / task.queries, query = first % task.queries;
    CUTE_NO_UNROLL
    for (int row = thread / across; row < rows; row += step) {
      char* const to =
          smem + row / 64 * (64 * dim * 2) + piece / 8 * Shape::query_chunk + atom::swizzled(row % 64, piece % 8);
      take_piece(task.q, tile.batch, head, query, piece * 8, tile.first + row < task.rows(), pieces, to);
      for (query += step; query >= task.queries; query -= task.queries) ++head;
    }
    announced.follow(rings.queries.slots.full[0]);
  }

  /// `keys` rows of keys or values from `start` on; those beyond the tile's are zero.
  template <int Extent, class X>
  static __device__ void fetch(X const& x, RowTile const& tile, int start, bool pieces, char* held,
                               ring<Shape::stages> pipe, unsigned& turn, Announced& announced) {
    constexpr int across = Extent / 8, step = 128 / across;  // a multiple of eight rows
    const int thread = static_cast<int>(threadIdx.x) % 128, first = thread / across, piece = thread % across;
    const int slot = pipe.slot(turn), left = tile.keys.to - start;
    announced.await(pipe.slots.empty[slot], pipe.parity(turn++) ^ 1u);
    char* const to = held + slot * (keys * Extent * 2) + piece / 8 * Shape::chunk + atom::swizzled(first, piece % 8);
    if (pieces) {
      auto const* const from = x.at(tile.batch, tile.group, start + first) + piece * 8;
      const index_t apart = x.step[2] * step;
      CUTE_UNROLL
      for (int i = 0; i < keys / step; ++i) {
        const bool there = first + i * step < left;
        matmul_impl::cp_async_piece(to + i * step * 128, there ? from + i * apart : x.data, there ? 16 : 0);
      }
    } else {
      CUTE_NO_UNROLL
      for (int i = 0; i < keys / step; ++i) {
        const int row = first + i * step;
        take_piece(x, tile.batch, tile.group, start + row, piece * 8, row < left, false, to + i * step * 128);
      }
    }
    announced.follow(pipe.slots.full[slot]);
  }

  /// Eight elements of a row, or zeros where it is not `there`.
  template <class X>
  static __device__ void take_piece(X const& x, int batch, int head, int row, int e, bool there, bool pieces, char* to) {
    if (pieces) {
      matmul_impl::cp_async_piece(to, there ? x.at(batch, head, row) + e : x.data, there ? 16 : 0);
      return;
    }
    core::Pack<T, 8> pack;
    CUTE_UNROLL
    for (int i = 0; i < 8; ++i) pack.value[i] = there ? x.load(batch, head, row, e + i) : convert<T>(0.0f);
    *reinterpret_cast<core::Pack<T, 8>*>(to) = pack;
  }
};

}  // namespace attention_tiles_impl
}  // namespace ops
}  // namespace tilefoundry
