/// \file attention_task.cuh
/// What a tile-level attention reads, and how its rows are cut into tiles.
#pragma once

#include <tilefoundry/runtime/cuda/ops/attention_scores.cuh>
#include <tilefoundry/runtime/cuda/topology.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {
namespace ops {

/// Queries, keys or values [batch, heads, length, dim] in memory, steps in elements.
template <class T>
struct HeadsInMemory {
  using value_type = stdx::remove_const_t<T>;
  static constexpr bool in_memory = true;
  T* data;
  index_t step[4];

  __device__ T* at(int batch, int head, int row) const { return data + batch * step[0] + head * step[1] + row * step[2]; }
  __device__ value_type load(int batch, int head, int row, int e) const { return at(batch, head, row)[e * step[3]]; }
  /// Whether every row starts at a multiple of 16 bytes and has no gaps.
  __device__ bool in_pieces() const {
    bool ok = ::tilefoundry::detail::is_aligned<16>(data) && step[3] == 1;
    CUTE_UNROLL
    for (int d = 0; d < 3; ++d) ok = ok && step[d] * index_t(sizeof(T)) % 16 == 0;
    return ok;
  }
};

/// The same, computed: `function(batch, head, row, e)` gives an element of type T.
template <class T, class Function>
struct ComputedHeads {
  using value_type = T;
  static constexpr bool in_memory = false;
  Function function;

  __device__ T load(int batch, int head, int row, int e) const { return function(batch, head, row, e); }
  __device__ bool in_pieces() const { return false; }
};

/// `ComputedHeads` of a function that is copied; any thread.
template <class T, class Function>
__device__ ComputedHeads<T, Function> computed_heads(Function const& function) {
  return {function};
}

/// Results [batch, heads, length, width] in memory, rounded to T; steps in elements. To be handed over to where an
/// attention asks for what is done with every element.
template <class T>
struct StoredHeads : HeadsInMemory<T> {
  static_assert(!stdx::is_const_v<T>, "ops::StoredHeads: memory that results are written to cannot be const");
  template <class Sum>
  __device__ void operator()(int batch, int head, int row, int e, Sum value) const {
    this->at(batch, head, row)[e * this->step[3]] = convert<T>(value);
  }
};

/// An attention: `Dim` of queries and keys, `Width` of values, keys in `Parts` that are joined at the end.
template <int Dim, int Width, int Parts, class Q, class K, class V, class Counts>
struct AttentionTask {
  using value_type = typename Q::value_type;
  static constexpr int dim = Dim, width = Width, parts = Parts;
  /// Whether the operands lie in memory, whole, so that blocks can fetch them ahead.
  static constexpr bool is_plain =
      Q::in_memory && K::in_memory && V::in_memory && stdx::is_same_v<Counts, AllKeys> && Parts == 1;
  Q q;
  K k;
  V v;
  Counts counts;
  int batch, heads, shared, queries, keys;
  Scores scores;

  /// Queries that share keys: those of a head follow each other.
  __device__ int rows() const { return heads / shared * queries; }
};

/// `AttentionTask` of what is given; any thread.
template <int Dim, int Width, int Parts, class Q, class K, class V, class Counts>
__device__ AttentionTask<Dim, Width, Parts, Q, K, V, Counts> attention_task(Q const& q, K const& k, V const& v,
                                                                           Counts const& counts, int batch, int heads,
                                                                           int shared, int queries, int keys,
                                                                           Scores const& scores) {
  return {q, k, v, counts, batch, heads, shared, queries, keys, scores};
}

namespace attention_tiles_impl {

namespace core = ::tilefoundry::detail;

using attention_impl::base_of;
using attention_impl::KeyRange;
using attention_impl::Powered;

/// The rows that a block works on, and the keys that it meets them with.
struct RowTile {
  int batch, group, first, part;
  int length;
  KeyRange keys;
};

/// Keys that query `at` of a head sees.
template <class Task>
__device__ KeyRange seen_by(Task const& task, int at, int length) {
  return attention_impl::visible_keys(task.scores, task.queries, at, length);
}

/// All keys that some of `rows` rows from `first` on sees, as one range; empty where none sees any.
template <class Task>
__device__ KeyRange seen_by_some(Task const& task, int first, int rows, int length) {
  const int last = first + rows < task.rows() ? first + rows - 1 : task.rows() - 1;
  const bool one_head = first / task.queries == last / task.queries;
  const KeyRange low = seen_by(task, one_head ? first % task.queries : 0, length);
  const KeyRange high = seen_by(task, one_head ? last % task.queries : task.queries - 1, length);
  // Later queries see later keys; those that see none come first, and the next one sees the first key.
  return low.to == low.from ? KeyRange{0, high.to} : KeyRange{low.from, high.to};
}

/// Which of `tiles` tiles comes as number `item`: the last rows of all heads before those in front of them, where a
/// head has as many tiles as another.
__device__ inline int last_rows_first(int tiles, int heads, int item) {
  const int each = tiles % heads == 0 ? tiles / heads : tiles, last = each - 1;
  return each == tiles ? last - item : item % heads * each + last - item / heads;
}

/// Tile number `item`: parts follow each other, then heads of keys, batch rows, tiles of rows. The last rows, which see
/// the most keys where masks are causal, come first. A part is a run of whole key tiles, as even as they go.
template <int Rows, int Keys, class Task>
__device__ RowTile tile_of(Task const& task, index_t number) {
  const int tiles = (task.rows() + Rows - 1) / Rows;
  const unsigned shared = task.shared, batch = task.batch;
  unsigned item = static_cast<unsigned>(number);  // there are no more tiles than blocks that a grid can have
  RowTile tile;
  tile.part = static_cast<int>(item % Task::parts), item /= Task::parts;
  tile.group = static_cast<int>(item % shared), item /= shared;
  tile.batch = static_cast<int>(item % batch), item /= batch;
  tile.first = last_rows_first(tiles, task.heads / task.shared, static_cast<int>(item)) * Rows;
  tile.length = static_cast<int>(task.counts.of(tile.batch, task.keys));
  tile.keys = seen_by_some(task, tile.first, Rows, tile.length);
  if constexpr (Task::parts > 1) {
    const int wanted = (tile.keys.to - tile.keys.from + Task::parts - 1) / Task::parts;
    const int step = (wanted + Keys - 1) / Keys * Keys, end = tile.keys.to;
    tile.keys.from += tile.part * step;
    tile.keys.to = tile.keys.from + step < end ? tile.keys.from + step : end;
  }
  return tile;
}

}  // namespace attention_tiles_impl
}  // namespace ops
}  // namespace tilefoundry
