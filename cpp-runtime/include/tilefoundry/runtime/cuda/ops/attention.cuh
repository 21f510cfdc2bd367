/// \file attention.cuh
/// `ops::attention`: scaled dot products, capped, masked, softmax, weighted sum, in one pass over keys and values.
///
/// Method: online softmax (Milakov and Gimelshein, 2018) per warp, partial results joined at the end in a fixed order.
#pragma once

#include <tilefoundry/runtime/cuda/ops/attention_joins.cuh>
#include <tilefoundry/runtime/cuda/ops/unary_tags.cuh>
#include <tilefoundry/runtime/cuda/view.cuh>

namespace tilefoundry {
namespace ops {
namespace core = ::tilefoundry::detail;

/// What is known of an attention when it is compiled. `Dim`: of queries and keys, `Width`: of values, `Rows`: queries
/// that a warp holds at a time, `Threads`: of a block.
template <int Dim, int Width, int Rows, int Threads>
struct AttentionForm {
  static constexpr int dim = Dim, width = Width, rows = Rows, threads = Threads;
  Scores scores;
};

namespace attention_impl {

/// Lengths as counts of keys.
template <class I>
__device__ KeyCounts<I> counts_of(View<I, 1> const& lengths) {
  return {lengths.data, lengths.stride[0]};
}
__device__ inline AllKeys counts_of(AllKeys all) { return all; }

__device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int lanes_for(int pieces) {
  int n = 1;
  while (n < pieces && n < 32) n *= 2;
  return n;
}

/// `Rows` queries that share keys, worked on by all warps of a cluster: each takes runs of keys in turn, a few lanes a
/// key, `unroll` keys a lane under way.
template <class T, class Form>
struct Stream {
  using Sum = accumulate_t<T>;
  static constexpr int dim = Form::dim, width = Form::width, rows = Form::rows, threads = Form::threads;
  static constexpr int piece = 16 / int(sizeof(T));
  static constexpr int lanes = lanes_for(ceil_div(dim > width ? dim : width, piece));
  static constexpr int key_pieces = ceil_div(dim, piece * lanes), value_pieces = ceil_div(width, piece * lanes);
  static constexpr int slots = 32 / lanes, unroll = 4, run = slots * unroll;
  static constexpr bool whole = dim % piece == 0 && width % piece == 0;
  using Keys = core::Pack<T, piece>[unroll][key_pieces];
  using Values = core::Pack<T, piece>[unroll][value_pieces];
  using Mixed = Sum[rows][value_pieces * piece];
  using Joins = RowJoins<Sum, rows, width, threads>;

  Scores const& scores;
  Powered<Sum> powered;
  Sum q[rows][key_pieces * piece];
  KeyRange seen[rows];
  int from, to;  ///< of all rows together
  Sum top[rows], total[rows];
  Mixed mixed;

  __device__ static int lane() { return static_cast<int>(program_id<TopologyScope::thread>()) % 32; }
  /// Place in a row of dim or width of the calling lane's element `i` of piece `p`.
  __device__ static int element(int p, int i) { return (p * lanes + lane() % lanes) * piece + i; }

  /// Query number `n` of the keys' head `g`: those of one head follow each other.
  template <class Q>
  __device__ void take(int r, View<Q, 4> const& queries, index_t b, index_t g, index_t n, index_t per, index_t length) {
    const index_t count = queries.shape[2], head = g * per + n / count, at = n % count;
    Q* const row = queries.data + b * queries.stride[0] + head * queries.stride[1] + at * queries.stride[2];
    CUTE_UNROLL
    for (int p = 0; p < key_pieces; ++p)
      CUTE_UNROLL
      for (int i = 0; i < piece; ++i) {
        const int e = element(p, i);
        q[r][p * piece + i] = e < dim ? static_cast<Sum>(widen(T(row[e * queries.stride[3]]))) : Sum(0);
      }
    seen[r] = visible_keys(scores, count, at, length);
    top[r] = -stdx::numeric_limits<Sum>::infinity(), total[r] = Sum(0);
    CUTE_UNROLL
    for (int i = 0; i < value_pieces * piece; ++i) mixed[r][i] = Sum(0);
  }

  /// All keys that some row sees; none where `from` equals `to`.
  __device__ void unite() {
    from = to = 0;
    CUTE_UNROLL
    for (int r = 0; r < rows; ++r)
      if (seen[r].from < seen[r].to) {
        from = to == 0 || seen[r].from < from ? seen[r].from : from;
        to = seen[r].to > to ? seen[r].to : to;
      }
  }

  /// The calling lane's pieces of row `at` of keys or values. `Packed`: by accesses of 16 bytes.
  template <bool Packed, int Extent, int Pieces, class X>
  __device__ static void fetch(core::Pack<T, piece> (&out)[Pieces], X* row, index_t step) {
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p) {
      const int first = element(p, 0);
      if constexpr (Packed) {
        if (first < Extent) {
          out[p] = *reinterpret_cast<core::Pack<T, piece> const*>(row + first);
          continue;
        }
      }
      CUTE_UNROLL
      for (int i = 0; i < piece; ++i)
        out[p].value[i] = !Packed && first + i < Extent ? T(row[(first + i) * step]) : convert<T>(0.0f);
    }
  }

  /// Runs of keys `worker`, `worker + workers`, ... of those that the rows see.
  template <bool Packed, class K, class V>
  __device__ void walk(K* keys, V* values, View<K, 4> const& k, View<V, 4> const& v, int worker, int workers) {
    int start = from + worker * run;
    if (start >= to) return;
    Keys key;
    Values value;
    fetch_run<Packed>(key, value, keys, values, k, v, start);
    for (;;) {
      // The next run is under way while this one is computed.
      const int next = start + workers * run;
      Keys next_key;
      Values next_value;
      if (next < to) fetch_run<Packed>(next_key, next_value, keys, values, k, v, next);
      CUTE_UNROLL
      for (int r = 0; r < rows; ++r) add(r, key, value, start);
      if (next >= to) return;
      start = next;
      CUTE_UNROLL
      for (int u = 0; u < unroll; ++u) {
        CUTE_UNROLL
        for (int p = 0; p < key_pieces; ++p) key[u][p] = next_key[u][p];
        CUTE_UNROLL
        for (int p = 0; p < value_pieces; ++p) value[u][p] = next_value[u][p];
      }
    }
  }

  /// Number of the calling lane's key `u` in the run that starts at `start`.
  __device__ static int numbered(int start, int u) { return start + u * slots + lane() / lanes; }

  template <bool Packed, class K, class V>
  __device__ void fetch_run(Keys& key, Values& value, K* keys, V* values, View<K, 4> const& k, View<V, 4> const& v,
                            int start) const {
    CUTE_UNROLL
    for (int u = 0; u < unroll; ++u) {
      // Lanes past the end read the last key again: what lies behind it may be anything.
      const index_t at = numbered(start, u) < to ? numbered(start, u) : to - 1;
      fetch<Packed, dim>(key[u], keys + at * k.stride[2], k.stride[3]);
      fetch<Packed, width>(value[u], values + at * v.stride[2], v.stride[3]);
    }
  }

  /// A run's contribution to row `r`.
  __device__ void add(int r, Keys const& key, Values const& value, int start) {
    Sum score[unroll], highest = top[r];
    CUTE_UNROLL
    for (int u = 0; u < unroll; ++u) {
      Sum sum = Sum(0);
      CUTE_UNROLL
      for (int p = 0; p < key_pieces; ++p)
        CUTE_UNROLL
        for (int i = 0; i < piece; ++i) sum += q[r][p * piece + i] * static_cast<Sum>(widen(key[u][p].value[i]));
      CUTE_UNROLL
      for (int apart = lanes / 2; apart > 0; apart /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, apart);
      const int number = numbered(start, u);
      const bool visible = number >= seen[r].from && number < seen[r].to;
      score[u] = visible ? powered(sum) : -stdx::numeric_limits<Sum>::infinity();
      highest = score[u] > highest ? score[u] : highest;
    }
    const Sum base = base_of(highest), shrink = exp2_op{}(top[r] - base);
    top[r] = highest, total[r] *= shrink;
    CUTE_UNROLL
    for (int i = 0; i < value_pieces * piece; ++i) mixed[r][i] *= shrink;
    CUTE_UNROLL
    for (int u = 0; u < unroll; ++u) {
      const Sum weight = exp2_op{}(score[u] - base);
      total[r] += weight;
      CUTE_UNROLL
      for (int p = 0; p < value_pieces; ++p)
        CUTE_UNROLL
        for (int i = 0; i < piece; ++i)
          mixed[r][p * piece + i] += weight * static_cast<Sum>(widen(value[u][p].value[i]));
    }
  }

  /// Join the lane groups of a warp; then every group holds the warp's sums.
  __device__ void join_slots() {
    CUTE_UNROLL
    for (int r = 0; r < rows; ++r)
      CUTE_UNROLL
      for (int apart = lanes; apart < 32; apart *= 2) {
        const Sum theirs = __shfl_xor_sync(0xffffffffu, top[r], apart);
        const Sum highest = theirs > top[r] ? theirs : top[r], base = base_of(highest);
        const Sum own_part = exp2_op{}(top[r] - base), their_part = exp2_op{}(theirs - base);
        top[r] = highest;
        total[r] = total[r] * own_part + __shfl_xor_sync(0xffffffffu, total[r], apart) * their_part;
        CUTE_UNROLL
        for (int i = 0; i < value_pieces * piece; ++i)
          mixed[r][i] = mixed[r][i] * own_part + __shfl_xor_sync(0xffffffffu, mixed[r][i], apart) * their_part;
      }
  }

  /// The warp's sums to where its block joins them; by all lanes, after `join_slots`.
  __device__ void hand_over(typename Joins::storage& to_join, int warp) const {
    if (lane() >= lanes) return;
    CUTE_UNROLL
    for (int r = 0; r < rows; ++r) {
      if (lane() == 0) to_join.warp_top[warp][r] = top[r], to_join.warp_total[warp][r] = total[r];
      CUTE_UNROLL
      for (int p = 0; p < value_pieces; ++p)
        CUTE_UNROLL
        for (int i = 0; i < piece; ++i)
          if (element(p, i) < width) to_join.warp_mixed[warp][r][element(p, i)] = mixed[r][p * piece + i];
    }
  }
};

/// Whether rows of the last mode start at multiples of 16 bytes and lie without gaps.
template <class T, int Rank>
__device__ bool rows_in_pieces(View<T, Rank> const& x) {
  bool ok = core::is_aligned<16>(x.data) && x.stride[Rank - 1] == 1;
  CUTE_UNROLL
  for (int d = 0; d + 1 < Rank; ++d) ok = ok && (x.shape[d] == 1 || x.stride[d] * index_t(sizeof(T)) % 16 == 0);
  return ok;
}

}  // namespace attention_impl

/// dst[b, h, s] = softmax(mask(cap(q . k * scale))) . v over the first lengths[b] keys (`AllKeys`: over all), heads of
/// q in equal groups over those of k and v. Query s of S stands at position length - S + s; one that sees no key gives
/// zeros. Sums are in the wide type, rounded once.
///
/// All threads of all blocks call, of a kernel marked `TILEFOUNDRY_ATTENTION_BLOCKS` whose blocks are a multiple of
/// eight: clusters then share the keys of a row; unmarked, each block works on rows of its own. Results are visible to
/// other blocks after a grid barrier or the end of the kernel; equal inputs give equal bits. No workspace.
template <class Q, class K, class V, class Lengths, class D, class Form>
__device__ void attention(View<Q, 4> const& q, View<K, 4> const& k, View<V, 4> const& v, Lengths const& lengths,
                          View<D, 4> const& dst, Form const& form) {
  using Stream = attention_impl::Stream<stdx::remove_const_t<K>, Form>;
  using Joins = typename Stream::Joins;
  __shared__ typename Joins::storage to_join;
  const index_t shared = k.shape[1], per = q.shape[1] / (shared > 0 ? shared : 1), queries = per * q.shape[2];
  const index_t chunks = (queries + Stream::rows - 1) / Stream::rows, items = q.shape[0] * shared * chunks;
  const Joins joins{to_join, attention_impl::blocks_together()};
  const int warp = static_cast<int>(program_id<TopologyScope::thread>()) / 32;
  const bool packed = Stream::whole && attention_impl::rows_in_pieces(k) && attention_impl::rows_in_pieces(v);
  for (index_t item = joins.group.number; item < items; item += joins.group.count) {
    const index_t first = item % chunks * Stream::rows, g = item / chunks % shared, b = item / chunks / shared;
    const index_t length = attention_impl::counts_of(lengths).of(b, k.shape[2]);
    Stream stream{form.scores, attention_impl::Powered<typename Stream::Sum>(form.scores)};
    CUTE_UNROLL
    for (int r = 0; r < Stream::rows; ++r)
      stream.take(r, q, b, g, first + r < queries ? first + r : queries - 1, per, length);
    stream.unite();
    K* const keys = k.data + b * k.stride[0] + g * k.stride[1];
    V* const values = v.data + b * v.stride[0] + g * v.stride[1];
    const int worker = joins.group.rank * Joins::warps + warp, workers = joins.group.size * Joins::warps;
    if (packed) {
      stream.template walk<Stream::whole>(keys, values, k, v, worker, workers);
    } else {
      stream.template walk<false>(keys, values, k, v, worker, workers);
    }
    stream.join_slots();
    stream.hand_over(to_join, warp);
    joins.finish([&](int r, int e, typename Stream::Sum value) {
      if (first + r >= queries) return;
      const index_t n = first + r, head = g * per + n / q.shape[2], at = n % q.shape[2];
      dst.data[b * dst.stride[0] + head * dst.stride[1] + at * dst.stride[2] + e * dst.stride[3]] = convert<D>(value);
    });
  }
}

}  // namespace ops
}  // namespace tilefoundry
