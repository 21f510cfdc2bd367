/// \file attention_wgmma.cuh
/// The attention tier on `wgmma` (sm_90a): a warpgroup's 64 rows; queries, keys and values in swizzled tiles.
///
/// Method: FlashAttention-3 (Shah et al., 2024) without its pipelines: blocks of a multiprocessor overlap each other.
#pragma once

#include <tilefoundry/runtime/cuda/ops/attention_mma.cuh>
#include <tilefoundry/runtime/cuda/ops/wgmma_registers.cuh>

namespace tilefoundry {
namespace ops {
namespace attention_tiles_impl {

/// T: f16 or bf16; `Dim` and `Width` are 64 or 128. Rows, weights and results are those of the tier on `mma.sync`.
template <class T, int Dim, int Width>
struct AttentionWgmma : AttentionMma<T, Dim, Width, 128> {
  using Base = AttentionMma<T, Dim, Width, 128>;
  using Rows = typename Base::Rows;
  static constexpr int threads = 128, keys = Base::keys;
  static_assert(keys == 64, "ops::attention: a chunk of the swizzled tiles is 64 keys");
  static constexpr int chunk = 64 * 128;  // bytes of 64 keys by 64 elements
  static constexpr int key_bytes = Dim / 64 * chunk, value_bytes = Width / 64 * chunk;
  static constexpr int bytes = 2 * key_bytes + value_bytes;  // queries are as many as keys
  static_assert(bytes <= 48 * 1024, "ops::attention: tiles of this dim exceed static shared memory");
  using Products = atom::wgmma<T, keys>;
  using Mixed = atom::wgmma_from_registers<T, Width, atom::Major::outer>;

  template <class Task, class Finish>
  static __device__ void run(Task const& task, RowTile const& tile, void* workspace, Finish const& finish) {
    char* const sq = static_cast<char*>(workspace);
    char* const sk = sq + key_bytes;
    char* const sv = sk + key_bytes;
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32, warp = thread / 32;
    const bool k_pieces = task.k.in_pieces(), v_pieces = task.v.in_pieces();
    __syncthreads();  // the tile before is still being read
    stage_queries(task, tile, sq);
    auto load_keys = [&](int start) {
      stage<Dim>(task.k, tile, start, k_pieces, sk);
      cp_async_commit();
    };
    auto load_values = [&](int start) {
      stage<Width>(task.v, tile, start, v_pieces, sv);
      cp_async_commit();
    };
    Rows own = {};
    Base::begin(task, tile, warp, lane, own);
    const Powered<float> powered(task.scores);
    load_keys(tile.keys.from);
    load_values(tile.keys.from);
    for (int start = tile.keys.from; start < tile.keys.to; start += keys) {
      arrived();
      float score[keys / 8][4] = {};
      multiply(sq, sk, score);
      __syncthreads();
      load_keys(start + keys);
      Base::weigh(tile, start, lane, powered, score, own);
      arrived();
      mix(score, sv, own);
      __syncthreads();
      load_values(start + keys);
    }
    cp_async_wait<0>();
    Base::end(task, tile, warp, lane, own, finish);
  }

  /// Wait for all but the latest tile under way, on behalf of the instructions that read shared memory by descriptor.
  static __device__ void arrived() {
    cp_async_wait<1>();
    atom::proxy_fence();
    __syncthreads();
  }

  /// The tile's queries, which stay; they arrive with the first keys.
  template <class Task>
  static __device__ void stage_queries(Task const& task, RowTile const& tile, char* to) {
    const bool pieces = task.q.in_pieces();
    CUTE_UNROLL
    for (int i = 0; i < Base::rows * (Dim / 8) / threads; ++i) {
      const int c = i * threads + static_cast<int>(program_id<TopologyScope::thread>());
      const int row = c / (Dim / 8), piece = c % (Dim / 8), n = tile.first + row;
      const int head = tile.group * (task.heads / task.shared) + n / task.queries;
      T* const at = reinterpret_cast<T*>(to + piece / 8 * chunk + atom::swizzled(row, piece % 8));
      Base::take_piece(task.q, tile.batch, head, n % task.queries, piece * 8, n < task.rows(), pieces, at);
    }
  }

  /// 64 rows of keys or values from `start` on; those beyond the tile's are zero.
  template <int Extent, class X>
  static __device__ void stage(X const& x, RowTile const& tile, int start, bool pieces, char* to) {
    CUTE_UNROLL
    for (int i = 0; i < keys * (Extent / 8) / threads; ++i) {
      const int c = i * threads + static_cast<int>(program_id<TopologyScope::thread>());
      const int row = c / (Extent / 8), piece = c % (Extent / 8);
      T* const at = reinterpret_cast<T*>(to + piece / 8 * chunk + atom::swizzled(row, piece % 8));
      Base::take_piece(x, tile.batch, tile.group, start + row, piece * 8, start + row < tile.keys.to, pieces, at);
    }
  }

  /// The registers of all 8-column blocks in a row, as an instruction counts them.
  template <int Blocks>
  static __device__ float (&in_a_row(float (&sums)[Blocks][4]))[Blocks * 4] {
    return reinterpret_cast<float(&)[Blocks * 4]>(sums);
  }

  static __device__ void multiply(char const* sq, char const* sk, float (&score)[keys / 8][4]) {
    float(&sums)[keys / 2] = in_a_row(score);
    const uint64_t query = atom::descriptor(sq, chunk), key = atom::descriptor(sk, chunk);
    atom::wgmma_fence_sums(sums);
    atom::wgmma_fence();
    CUTE_UNROLL
    for (int k = 0; k < Dim / 16; ++k) {
      const int at = k / 4 * chunk + k % 4 * Products::a_step;
      Products::fma(sums, atom::advance(query, at), atom::advance(key, at));
    }
    atom::wgmma_commit();
    atom::wgmma_wait<0>();
    atom::wgmma_fence_sums(sums);
  }

  static __device__ void mix(float (&weight)[keys / 8][4], char const* sv, Rows& own) {
    uint32_t most[keys / 16][4], rest[keys / 16][4];
    CUTE_UNROLL
    for (int k = 0; k < keys / 16; ++k) Base::split(weight, k, most[k], rest[k]);
    float(&sums)[Width / 2] = in_a_row(own.mixed);
    const uint64_t first = atom::descriptor(sv, chunk);
    atom::wgmma_fence_fragments(most);
    atom::wgmma_fence_fragments(rest);
    atom::wgmma_fence_sums(sums);
    atom::wgmma_fence();
    CUTE_UNROLL
    for (int k = 0; k < keys / 16; ++k) {
      const uint64_t at = atom::advance(first, k * Mixed::b_step);
      Mixed::fma(sums, most[k], at);
      Mixed::fma(sums, rest[k], at);
    }
    atom::wgmma_commit();
    atom::wgmma_wait<0>();
    atom::wgmma_fence_fragments(most);
    atom::wgmma_fence_fragments(rest);
    atom::wgmma_fence_sums(sums);
  }
};

}  // namespace attention_tiles_impl
}  // namespace ops
}  // namespace tilefoundry
