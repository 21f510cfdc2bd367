/// \file attention_mma.cuh
/// The attention tier on `mma.sync` (sm_80 and later): 16 rows a warp, keys and values staged by cp.async in turn.
///
/// Method: FlashAttention-2 (Dao, 2023). Weights enter the second product as a 16-bit number and what that leaves, so
/// that they are as good as float ones.
#pragma once

#include <tilefoundry/runtime/cuda/ops/attention_task.cuh>
#include <tilefoundry/runtime/cuda/ops/copy_async.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_tiles.cuh>
#include <tilefoundry/runtime/cuda/ops/mma_atoms.cuh>

namespace tilefoundry {
namespace ops {
namespace attention_tiles_impl {

/// T: f16 or bf16; `Dim` and `Width` are multiples of 16 up to 256.
template <class T, int Dim, int Width, int Threads>
struct AttentionMma {
  using Sum = float;
  using Atom = atom::mma_sync<T>;
  static constexpr int warps = Threads / 32, rows = 16 * warps;
  static constexpr int keys = Dim > 128 || Width > 128 ? 32 : 64;
  static constexpr int pad = 8;  // one piece: eight rows then start in different banks
  static constexpr int key_pitch = Dim + pad, value_pitch = Width + pad;
  static constexpr int query_elements = rows * key_pitch, key_elements = keys * key_pitch;
  static constexpr int tile_elements = key_elements + keys * value_pitch;
  static constexpr int bytes = 2 * (query_elements > tile_elements ? query_elements : tile_elements);
  static_assert(bytes <= (Threads > 128 ? 96 : 48) * 1024, "ops::attention: tiles of this dim exceed shared memory");

  /// A warp's two rows of a lane: `lane / 4` and eight more.
  struct Rows {
    KeyRange seen[2];
    float top[2], total[2];
    float mixed[Width / 8][4];
  };

  template <class Task, class Finish>
  static __device__ void run(Task const& task, RowTile const& tile, void* workspace, Finish const& finish) {
    T* const sk = static_cast<T*>(workspace);
    T* const sv = sk + key_elements;
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32, warp = thread / 32;
    const bool k_pieces = task.k.in_pieces(), v_pieces = task.v.in_pieces();
    uint32_t query[Dim / 16][4];
    take_queries(task, tile, sk, warp, lane, query);
    auto load_keys = [&](int start) {
      stage<Dim, key_pitch>(task.k, tile, start, k_pieces, sk);
      cp_async_commit();
    };
    auto load_values = [&](int start) {
      stage<Width, value_pitch>(task.v, tile, start, v_pieces, sv);
      cp_async_commit();
    };
    Rows own = {};
    begin(task, tile, warp, lane, own);
    const Powered<float> powered(task.scores);
    load_keys(tile.keys.from);
    load_values(tile.keys.from);
    for (int start = tile.keys.from; start < tile.keys.to; start += keys) {
      cp_async_wait<1>();  // the values behind them are still under way
      __syncthreads();
      float score[keys / 8][4] = {};
      multiply(query, sk, lane, score);
      __syncthreads();
      load_keys(start + keys);
      weigh(tile, start, lane, powered, score, own);
      cp_async_wait<1>();
      __syncthreads();
      mix(score, sv, lane, own);
      __syncthreads();
      load_values(start + keys);
    }
    cp_async_wait<0>();
    end(task, tile, warp, lane, own, finish);
  }

  /// The tile's queries, by way of shared memory, to the fragments that a warp multiplies.
  template <class Task>
  static __device__ void take_queries(Task const& task, RowTile const& tile, T* held, int warp, int lane,
                                      uint32_t (&query)[Dim / 16][4]) {
    __syncthreads();  // the tile before is still being read
    const bool pieces = task.q.in_pieces();
    for (int c = program_id<TopologyScope::thread>(); c < rows * (Dim / 8); c += Threads) {
      const int row = c / (Dim / 8), e = c % (Dim / 8) * 8, n = tile.first + row;
      const int head = tile.group * (task.heads / task.shared) + n / task.queries, at = n % task.queries;
      take_piece(task.q, tile.batch, head, at, e, n < task.rows(), pieces, held + row * key_pitch + e);
    }
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    CUTE_UNROLL
    for (int k = 0; k < Dim / 16; ++k) {
      const int i = lane / 8, row = warp * 16 + (i & 1) * 8 + lane % 8;
      atom::ldmatrix_x4<false>(query[k], held + row * key_pitch + k * 16 + (i >> 1) * 8);
    }
    __syncthreads();
  }

  /// `keys` rows of keys or values from `start` on; those beyond the tile's are zero.
  template <int Extent, int Pitch, class X>
  static __device__ void stage(X const& x, RowTile const& tile, int start, bool pieces, T* to) {
    for (int c = program_id<TopologyScope::thread>(); c < keys * (Extent / 8); c += Threads) {
      const int row = c / (Extent / 8), e = c % (Extent / 8) * 8;
      take_piece(x, tile.batch, tile.group, start + row, e, start + row < tile.keys.to, pieces, to + row * Pitch + e);
    }
  }

  /// Eight elements of a row, or zeros where it is not `there`.
  template <class X>
  static __device__ void take_piece(X const& x, int batch, int head, int row, int e, bool there, bool pieces, T* to) {
    if constexpr (X::in_memory) {
      if (pieces) {
        void const* const from = there ? x.at(batch, head, row) + e : x.data;
        matmul_impl::cp_async_piece(to, from, there ? 16 : 0);
        return;
      }
    }
    core::Pack<T, 8> pack;
    CUTE_UNROLL
    for (int i = 0; i < 8; ++i) pack.value[i] = there ? x.load(batch, head, row, e + i) : convert<T>(0.0f);
    *reinterpret_cast<core::Pack<T, 8>*>(to) = pack;
  }

  template <class Task>
  static __device__ void begin(Task const& task, RowTile const& tile, int warp, int lane, Rows& own) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int n = tile.first + warp * 16 + lane / 4 + r * 8;
      own.seen[r] = n < task.rows() ? seen_by(task, n % task.queries, tile.length) : KeyRange{0, 0};
      if (own.seen[r].to > tile.keys.to) own.seen[r].to = tile.keys.to;
      own.top[r] = -stdx::numeric_limits<float>::infinity();
    }
  }

  /// Dot products of the warp's rows with all keys of the tile.
  static __device__ void multiply(uint32_t const (&query)[Dim / 16][4], T const* sk, int lane,
                                  float (&score)[keys / 8][4]) {
    CUTE_UNROLL
    for (int k = 0; k < Dim / 16; ++k)
      CUTE_UNROLL
      for (int j = 0; j < keys / 16; ++j) {
        const int i = lane / 8, row = j * 16 + (i >> 1) * 8 + lane % 8;
        uint32_t two[4];
        atom::ldmatrix_x4<false>(two, sk + row * key_pitch + k * 16 + (i & 1) * 8);
        const uint32_t even[2] = {two[0], two[1]}, odd[2] = {two[2], two[3]};
        Atom::fma(score[2 * j], query[k], even);
        Atom::fma(score[2 * j + 1], query[k], odd);
      }
  }

  /// Scores to weights; earlier sums become what they are worth now.
  static __device__ void weigh(RowTile const&, int start, int lane, Powered<float> const& powered,
                               float (&score)[keys / 8][4], Rows& own) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const KeyRange seen = own.seen[r];
      float top = own.top[r];
      CUTE_UNROLL
      for (int j = 0; j < keys / 8; ++j)
        CUTE_UNROLL
        for (int s = 2 * r; s < 2 * r + 2; ++s) {
          const int key = start + j * 8 + Atom::sum_column(lane, s);
          const bool visible = key >= seen.from && key < seen.to;
          score[j][s] = visible ? powered(score[j][s]) : -stdx::numeric_limits<float>::infinity();
          top = score[j][s] > top ? score[j][s] : top;
        }
      CUTE_UNROLL
      for (int apart = 1; apart < 4; apart *= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, top, apart);
        top = other > top ? other : top;
      }
      const float base = base_of(top), shrink = exp2_op{}(own.top[r] - base);
      own.top[r] = top, own.total[r] *= shrink;
      CUTE_UNROLL
      for (int j = 0; j < Width / 8; ++j) own.mixed[j][2 * r] *= shrink, own.mixed[j][2 * r + 1] *= shrink;
      CUTE_UNROLL
      for (int j = 0; j < keys / 8; ++j)
        CUTE_UNROLL
        for (int s = 2 * r; s < 2 * r + 2; ++s) {
          score[j][s] = exp2_op{}(score[j][s] - base);
          own.total[r] += score[j][s];
        }
    }
  }

  /// Two neighbouring weights as a word of 16-bit numbers; they become what is left.
  static __device__ uint32_t halves(float& a, float& b) {
    core::Pack<T, 2> pack{{convert<T>(a), convert<T>(b)}};
    a -= static_cast<float>(widen(pack.value[0])), b -= static_cast<float>(widen(pack.value[1]));
    return *reinterpret_cast<uint32_t const*>(&pack);
  }

  /// The weights of 16 keys as fragments: 16-bit numbers, and what they leave.
  static __device__ void split(float (&weight)[keys / 8][4], int k, uint32_t (&most)[4], uint32_t (&rest)[4]) {
    float(&low)[4] = weight[2 * k];
    float(&high)[4] = weight[2 * k + 1];
    most[0] = halves(low[0], low[1]), most[1] = halves(low[2], low[3]);
    most[2] = halves(high[0], high[1]), most[3] = halves(high[2], high[3]);
    rest[0] = halves(low[0], low[1]), rest[1] = halves(low[2], low[3]);
    rest[2] = halves(high[0], high[1]), rest[3] = halves(high[2], high[3]);
  }

  /// Add the weighed values of the tile.
  static __device__ void mix(float (&weight)[keys / 8][4], T const* sv, int lane, Rows& own) {
    CUTE_UNROLL
    for (int k = 0; k < keys / 16; ++k) {
      uint32_t most[4], rest[4];
      split(weight, k, most, rest);
      CUTE_UNROLL
      for (int j = 0; j < Width / 16; ++j) {
        const int i = lane / 8, row = k * 16 + (i & 1) * 8 + lane % 8;
        uint32_t two[4];
        atom::ldmatrix_x4<true>(two, sv + row * value_pitch + j * 16 + (i >> 1) * 8);
        const uint32_t even[2] = {two[0], two[1]}, odd[2] = {two[2], two[3]};
        Atom::fma(own.mixed[2 * j], most, even);
        Atom::fma(own.mixed[2 * j], rest, even);
        Atom::fma(own.mixed[2 * j + 1], most, odd);
        Atom::fma(own.mixed[2 * j + 1], rest, odd);
      }
    }
  }

  template <class Task, class Finish>
  static __device__ void end(Task const& task, RowTile const& tile, int warp, int lane, Rows& own,
                             Finish const& finish) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      CUTE_UNROLL
      for (int apart = 1; apart < 4; apart *= 2) own.total[r] += __shfl_xor_sync(0xffffffffu, own.total[r], apart);
      const int n = tile.first + warp * 16 + lane / 4 + r * 8;
      if (n >= task.rows()) continue;
      CUTE_UNROLL
      for (int j = 0; j < Width / 8; ++j)
        CUTE_UNROLL
        for (int s = 2 * r; s < 2 * r + 2; ++s)
          finish(n, j * 8 + Atom::sum_column(lane, s), own.mixed[j][s], own.top[r], own.total[r]);
    }
  }
};

}  // namespace attention_tiles_impl
}  // namespace ops
}  // namespace tilefoundry
