/// \file attention_simt.cuh
/// The attention tier for every element type and dim: tiles in shared memory, products on the ordinary pipes.
#pragma once

#include <tilefoundry/runtime/cuda/dtype.cuh>
#include <tilefoundry/runtime/cuda/ops/attention_task.cuh>

namespace tilefoundry {
namespace ops {
namespace attention_tiles_impl {

template <class T, int Dim, int Width, int Threads>
struct AttentionSimt {
  using Sum = accumulate_t<T>;
  static constexpr int rows = 8, keys = 32, depth = 32;
  static constexpr int own = (rows * Width + Threads - 1) / Threads, pairs = (rows * keys + Threads - 1) / Threads;

  /// In shared memory.
  struct Held {
    Sum query[rows][Dim];
    Sum key[keys][depth + 1];
    Sum weight[rows][keys + 1];
    Sum top[rows], total[rows], shrink[rows];
  };
  static constexpr int bytes = int(sizeof(Held));
  static_assert(bytes <= 48 * 1024, "ops::attention: rows of this dim exceed static shared memory");

  /// `finish(row, e, mixed, top, total)` for every value of the tile's rows: the weighted sum, what its weights were
  /// measured from, and their sum.
  template <class Task, class Finish>
  static __device__ void run(Task const& task, RowTile const& tile, void* workspace, Finish const& finish) {
    Held& held = *static_cast<Held*>(workspace);
    const int thread = program_id<TopologyScope::thread>();
    __syncthreads();  // the tile before is still being read
    take_queries(task, tile, held, thread);
    Sum mixed[own];
    CUTE_UNROLL
    for (int i = 0; i < own; ++i) mixed[i] = Sum(0);
    const Powered<Sum> powered(task.scores);
    for (int start = tile.keys.from; start < tile.keys.to; start += keys) {
      score(task, tile, held, thread, start, powered);
      weigh(held, thread);
      const int count = tile.keys.to - start < keys ? tile.keys.to - start : keys;
      CUTE_UNROLL
      for (int i = 0; i < own; ++i) {
        const int at = thread + i * Threads, r = at / Width, e = at % Width;
        if (at >= rows * Width) continue;
        Sum sum = mixed[i] * held.shrink[r];
        for (int key = 0; key < count; ++key)
          sum += held.weight[r][key] * static_cast<Sum>(widen(task.v.load(tile.batch, tile.group, start + key, e)));
        mixed[i] = sum;
      }
    }
    __syncthreads();  // a tile without keys has not met here since it took its queries
    CUTE_UNROLL
    for (int i = 0; i < own; ++i) {
      const int at = thread + i * Threads, r = at / Width;
      if (at < rows * Width && tile.first + r < task.rows())
        finish(tile.first + r, at % Width, mixed[i], held.top[r], held.total[r]);
    }
  }

  template <class Task>
  static __device__ void take_queries(Task const& task, RowTile const& tile, Held& held, int thread) {
    for (int i = thread; i < rows * Dim; i += Threads) {
      const int n = tile.first + i / Dim, head = tile.group * (task.heads / task.shared) + n / task.queries;
      Sum value = Sum(0);
      if (n < task.rows()) value = static_cast<Sum>(widen(task.q.load(tile.batch, head, n % task.queries, i % Dim)));
      held.query[i / Dim][i % Dim] = value;
    }
    if (thread < rows) held.top[thread] = -stdx::numeric_limits<Sum>::infinity(), held.total[thread] = Sum(0);
  }

  /// Scores of a key tile as powers of two; minus infinity where a row does not see the key.
  template <class Task>
  static __device__ void score(Task const& task, RowTile const& tile, Held& held, int thread, int start,
                               Powered<Sum> const& powered) {
    Sum product[pairs];
    CUTE_UNROLL
    for (int i = 0; i < pairs; ++i) product[i] = Sum(0);
    for (int d0 = 0; d0 < Dim; d0 += depth) {
      __syncthreads();
      for (int i = thread; i < keys * depth; i += Threads) {
        const int key = start + i / depth, d = d0 + i % depth;
        Sum value = Sum(0);
        if (key < tile.keys.to && d < Dim) value = static_cast<Sum>(widen(task.k.load(tile.batch, tile.group, key, d)));
        held.key[i / depth][i % depth] = value;
      }
      __syncthreads();
      const int deep = Dim - d0 < depth ? Dim - d0 : depth;
      CUTE_UNROLL
      for (int i = 0; i < pairs; ++i) {
        const int at = thread + i * Threads, r = at / keys, key = at % keys;
        if (at < rows * keys)
          for (int d = 0; d < deep; ++d) product[i] += held.query[r][d0 + d] * held.key[key][d];
      }
    }
    CUTE_UNROLL
    for (int i = 0; i < pairs; ++i) {
      const int at = thread + i * Threads, r = at / keys, key = start + at % keys;
      if (at >= rows * keys) continue;
      const KeyRange seen = seen_by(task, (tile.first + r) % task.queries, tile.length);
      const bool visible = key >= seen.from && key < seen.to && key < tile.keys.to;
      held.weight[r][at % keys] = visible ? powered(product[i]) : -stdx::numeric_limits<Sum>::infinity();
    }
    __syncthreads();
  }

  /// Scores to weights; `shrink` is what earlier sums of a row are worth now.
  static __device__ void weigh(Held& held, int thread) {
    if (thread < rows) {
      Sum top = held.top[thread];
      for (int key = 0; key < keys; ++key) top = held.weight[thread][key] > top ? held.weight[thread][key] : top;
      held.shrink[thread] = exp2_op{}(held.top[thread] - base_of(top));
      held.top[thread] = top;
    }
    __syncthreads();
    for (int i = thread; i < rows * keys; i += Threads) {
      Sum& weight = held.weight[i / keys][i % keys];
      weight = exp2_op{}(weight - base_of(held.top[i / keys]));
    }
    __syncthreads();
    if (thread < rows) {
      Sum sum = Sum(0);
      for (int key = 0; key < keys; ++key) sum += held.weight[thread][key];
      held.total[thread] = held.total[thread] * held.shrink[thread] + sum;
    }
  }
};

}  // namespace attention_tiles_impl
}  // namespace ops
}  // namespace tilefoundry
