/// \file attention_ring.cuh
/// The attention tier of sm_90a for many queries: one warpgroup fetches keys and values into rings of swizzled tiles,
/// two multiply, 64 rows each.
///
/// Method: FlashAttention-3 (Shah et al., 2024): the scores of the next keys are under way while the weights of these are
/// mixed, the two warpgroups take turns at the matrix instructions, and the blocks of a launch take tiles of rows in
/// turns, whose keys are fetched ahead.
#pragma once

#include <tilefoundry/runtime/cuda/ops/attention_fetch.cuh>
#include <tilefoundry/runtime/cuda/ops/attention_rows.cuh>

namespace tilefoundry {
namespace ops {
namespace attention_tiles_impl {

/// How many registers a thread may use from here on; all warps of a warpgroup, which together with the others must not
/// take more than the block was given.
template <int Registers, bool More>
__device__ void set_registers() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  if constexpr (More) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
  } else {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
  }
#endif
}

/// T: f16 or bf16; `Dim` and `Width` are 64 or 128; queries, keys and values lie in memory. The block has 384 threads:
/// warpgroups 0 and 1 multiply, 2 fetches.
template <class T, int Dim, int Width>
struct AttentionRing {
  using Shape = RingShape<Dim, Width>;
  using Rings = AttentionRings<Shape>;
  static constexpr bool in_turns = true;
  static constexpr int bytes = Shape::bytes, keys = Shape::keys, rows = Shape::rows, workers = Shape::workers;

  using Softmax = OnlineSoftmax<keys>;
  using Products = atom::wgmma<T, keys>;
  using Mixed = atom::wgmma_from_registers<T, Width, atom::Major::outer>;
  using Sums = float[Width / 8][4];
  using Scored = float[keys / 8][4];

  template <class Task, class Out>
  static __device__ void run(Task const& task, void* workspace, Out const& out) {
    char* const smem = static_cast<char*>(workspace);
    Rings rings(*reinterpret_cast<typename Rings::storage*>(smem + Shape::barriers_at));
    // Equal in all threads of a warp, and known to be.
    const int group = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / 128, 0);
    if (threadIdx.x == 0) rings.init();
    __syncthreads();
    if (group == workers) {
      set_registers<56, false>();
      AttentionFetch<T, Shape>::run(task, smem, rings);
    } else {
      set_registers<224, true>();
      work(task, smem, rings, group, out);
    }
    __syncthreads();
    if (threadIdx.x == 0) rings.retire();
  }

  template <class Task, class Out>
  static __device__ void work(Task const& task, char* smem, Rings& rings, int group, Out const& out) {
    const int thread = static_cast<int>(threadIdx.x) % 128, lane = thread % 32;
    const Exponents exponents(task.scores);
    for_each_tile<rows, keys>(task, [&](RowTile const& tile) {
      const int first = tile.first + group * 64 + thread / 32 * 16;
      OnlineRows own;
      Softmax::begin(task, tile, first, lane, own);
      Sums mixed = {};
      if (tile.keys.from < tile.keys.to) attend(tile, lane, group, exponents, smem, rings, own, mixed);
      finish(task, tile, first, lane, own, mixed, smem + Shape::staged_at, out);
    });
  }

  /// All keys of a tile.
  static __device__ void attend(RowTile const& tile, int lane, int group, Exponents const& exponents, char const* smem,
                                Rings& rings, OnlineRows& own, Sums& mixed) {
    const uint64_t query = atom::descriptor(smem + group * (64 * Dim * 2), Shape::query_chunk);
    Scored score = {};
    float shrink[2];
    WeightFragments<T, keys> weights;
    rings.queries.wait(rings.query_turn);
    rings.keys.wait(rings.key_turn);
    multiply(query, smem, rings.keys.slot(rings.key_turn), score);
    atom::wgmma_wait<0>();
    atom::wgmma_fence_sums(in_a_row(score));
    rings.release(rings.keys, rings.key_turn++);
    Softmax::weigh(tile.keys.from, lane, exponents, score, own, shrink);
    weights.take(score);
    for (int start = tile.keys.from + keys; start < tile.keys.to; start += keys) {
      rings.keys.wait(rings.key_turn);
      rings.await_turn(group);
      multiply(query, smem, rings.keys.slot(rings.key_turn), score);
      const unsigned before = rings.key_turn - 1;  // the values of the keys that came before these
      rings.values.wait(before);
      mix(weights, smem, rings.values.slot(before), mixed);
      rings.pass_turn(group);
      atom::wgmma_wait<1>();
      atom::wgmma_fence_sums(in_a_row(score));
      rings.release(rings.keys, rings.key_turn++);
      Softmax::weigh(start, lane, exponents, score, own, shrink);
      // Never so. The compiler would put the wait before the softmax, which has nothing to do with it, but not before this.
      if (own.total[0] + own.total[1] < 0.0f) __trap();
      arrived(weights, mixed);
      rings.release(rings.values, before);
      shrink_by(shrink, mixed);
      weights.take(score);
    }
    rings.release(rings.queries, rings.query_turn++);
    const unsigned last = rings.key_turn - 1;
    rings.values.wait(last);
    mix(weights, smem, rings.values.slot(last), mixed);
    arrived(weights, mixed);
    rings.release(rings.values, last);
  }

  /// Sums of 16 rows to what they are worth now, which mostly has not changed.
  static __device__ void shrink_by(float const (&shrink)[2], Sums& mixed) {
    if (!__any_sync(0xffffffffu, shrink[0] != 1.0f || shrink[1] != 1.0f)) return;
    CUTE_UNROLL
    for (int j = 0; j < Width / 8; ++j)
      CUTE_UNROLL
      for (int s = 0; s < 4; ++s) mixed[j][s] *= shrink[s / 2];
  }

  /// The registers of all 8-column blocks in a row, as an instruction counts them.
  template <int Blocks>
  static __device__ float (&in_a_row(float (&sums)[Blocks][4]))[Blocks * 4] {
    return reinterpret_cast<float(&)[Blocks * 4]>(sums);
  }

  /// Have the dot products with all keys of a slot under way.
  static __device__ void multiply(uint64_t query, char const* smem, int slot, Scored& score) {
    float(&sums)[keys / 2] = in_a_row(score);
    const uint64_t key = atom::descriptor(smem + Shape::keys_at + slot * Shape::key_bytes, Shape::chunk);
    atom::wgmma_fence_sums(sums);
    atom::wgmma_fence();
    Products::template fma<false>(sums, query, key);
    CUTE_UNROLL
    for (int k = 1; k < Dim / 16; ++k)
      Products::fma(sums, atom::advance(query, k / 4 * Shape::query_chunk + k % 4 * Products::a_step),
                    atom::advance(key, k / 4 * Shape::chunk + k % 4 * Products::b_step));
    atom::wgmma_commit();
  }

  /// Have the weighed values of a slot under way.
  static __device__ void mix(WeightFragments<T, keys>& weights, char const* smem, int slot, Sums& mixed) {
    float(&sums)[Width / 2] = in_a_row(mixed);
    const uint64_t value = atom::descriptor(smem + Shape::values_at + slot * Shape::value_bytes, Shape::chunk);
    atom::wgmma_fence_fragments(weights.most);
    atom::wgmma_fence_fragments(weights.rest);
    atom::wgmma_fence_sums(sums);
    atom::wgmma_fence();
    CUTE_UNROLL
    for (int k = 0; k < keys / 16; ++k) {
      const uint64_t at = atom::advance(value, k * Mixed::b_step);
      Mixed::fma(sums, weights.most[k], at);
      Mixed::fma(sums, weights.rest[k], at);
    }
    atom::wgmma_commit();
  }

  /// Wait for all products under way.
  static __device__ void arrived(WeightFragments<T, keys>& weights, Sums& mixed) {
    atom::wgmma_wait<0>();
    atom::wgmma_fence_fragments(weights.most);
    atom::wgmma_fence_fragments(weights.rest);
    atom::wgmma_fence_sums(in_a_row(mixed));
  }

  /// Where rows `lane / 4` and eight more of the warp belong.
  struct Places {
    int head[2], query[2];

    template <class Task>
    __device__ Places(Task const& task, RowTile const& tile, int first, int lane) {
      CUTE_UNROLL
      for (int r = 0; r < 2; ++r) {
        const int n = first + lane / 4 + r * 8;
        head[r] = tile.group * (task.heads / task.shared) + n / task.queries, query[r] = n % task.queries;
      }
    }
    /// Of row `row`, whose half of the 16 all lanes have in common; all lanes of a warp.
    __device__ int head_of(int half, int row) const { return __shfl_sync(0xffffffffu, head[half], row % 8 * 4); }
    __device__ int query_of(int half, int row) const { return __shfl_sync(0xffffffffu, query[half], row % 8 * 4); }
  };

  /// Hand the warp's 16 rows over, by way of its own shared memory.
  template <class Task, class Out>
  static __device__ void finish(Task const& task, RowTile const& tile, int first, int lane, OnlineRows const& own,
                                Sums const& mixed, char* memory, Out const& out) {
    char* const staged = memory + static_cast<int>(threadIdx.x) / 32 * Shape::staged_bytes;
    const Places places(task, tile, first, lane);
    const float share[2] = {Softmax::share(own, 0), Softmax::share(own, 1)};
    __syncwarp();  // the rows before have been read
    if constexpr (stdx::is_same_v<Out, StoredHeads<T>>) {
      if (out.in_pieces()) {
        store(task, tile, first, lane, places, share, mixed, staged, out);
        return;
      }
    }
    hand_over(task, tile, first, lane, places, share, mixed, reinterpret_cast<float*>(staged), out);
  }

  /// As pieces of 16 bytes, neighbouring ones by neighbouring lanes.
  template <class Task>
  static __device__ void store(Task const& task, RowTile const& tile, int first, int lane, Places const& places,
                               float const (&share)[2], Sums const& mixed, char* staged, StoredHeads<T> const& out) {
    constexpr int pitch = (Width + 8) * 2, across = Width / 8, step = 32 / across;
    static_assert(16 * pitch <= Shape::staged_bytes, "ops::attention: rows exceed the memory that they are staged in");
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r)
      CUTE_UNROLL
      for (int j = 0; j < Width / 8; ++j) {
        const core::Pack<T, 2> two{{convert<T>(mixed[j][2 * r] * share[r]), convert<T>(mixed[j][2 * r + 1] * share[r])}};
        *reinterpret_cast<core::Pack<T, 2>*>(staged + (lane / 4 + r * 8) * pitch + (j * 8 + lane % 4 * 2) * 2) = two;
      }
    __syncwarp();
    CUTE_UNROLL
    for (int i = 0; i < 16 / step; ++i) {
      const int row = i * step + lane / across, piece = lane % across;
      const int head = places.head_of(i * step / 8, row), query = places.query_of(i * step / 8, row);
      auto const* const from = reinterpret_cast<core::Pack<T, 8> const*>(staged + row * pitch + piece * 16);
      if (first + row < task.rows())
        *reinterpret_cast<core::Pack<T, 8>*>(out.at(tile.batch, head, query) + piece * 8) = *from;
    }
  }

  /// Element by element, neighbouring ones by neighbouring lanes.
  template <class Task, class Out>
  static __device__ void hand_over(Task const& task, RowTile const& tile, int first, int lane, Places const& places,
                                   float const (&share)[2], Sums const& mixed, float* staged, Out const& out) {
    CUTE_UNROLL
    for (int begin = 0; begin < Width; begin += Shape::staged_columns) {
      if (begin > 0) __syncwarp();
      CUTE_UNROLL
      for (int r = 0; r < 2; ++r)
        CUTE_UNROLL
        for (int j = 0; j < Shape::staged_columns / 8; ++j) {
          float const(&sums)[4] = mixed[begin / 8 + j];
          float* const to = staged + (lane / 4 + r * 8) * Shape::staged_pitch + j * 8 + lane % 4 * 2;
          *reinterpret_cast<float2*>(to) = make_float2(sums[2 * r] * share[r], sums[2 * r + 1] * share[r]);
        }
      __syncwarp();
      CUTE_UNROLL
      for (int row = 0; row < 16; ++row) {
        const int head = places.head_of(row / 8, row), query = places.query_of(row / 8, row);
        if (first + row >= task.rows()) continue;
        CUTE_UNROLL
        for (int e = 0; e < Shape::staged_columns; e += 32)
          out(tile.batch, head, query, begin + e + lane, staged[row * Shape::staged_pitch + e + lane]);
      }
    }
  }
};

}  // namespace attention_tiles_impl
}  // namespace ops
}  // namespace tilefoundry
