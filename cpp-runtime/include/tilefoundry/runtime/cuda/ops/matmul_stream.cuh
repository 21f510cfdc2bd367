/// \file matmul_stream.cuh
/// The matmul tier for few rows: every weight is read once, in 16-byte pieces, at the rate of memory.
#pragma once

#include <tilefoundry/runtime/cuda/ops/binary_tags.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_epilogue.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_tiles.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// Warps that share a column, so that some six blocks of eight warps a multiprocessor have work; one for `columns` 0.
__device__ constexpr int warps_per_column(int columns, int warps) {
  int n = 1;
  while (columns > 0 && 2 * n <= warps && warps % (2 * n) == 0 && columns * 2 * n <= 6336) n *= 2;
  return n;
}

/// `Split` warps multiply `Rows` rows of a by `Outputs` neighbouring columns of b; their lanes share k in pieces. Every
/// lane has `Outputs * Unroll` pieces of b under way. Sums are joined over lanes, then warps, in a fixed order.
template <class TA, class TB, int Threads, int Rows, int Outputs = 2, int Unroll = 4, int Split = 1>
struct StreamTier {
  using Sum = stdx::common_type_t<accumulate_t<TA>, accumulate_t<TB>>;

  static constexpr int warps = Threads / 32, split = Split, groups = warps / Split;
  static constexpr int piece = 16 / int(sizeof(TB)), lanes = 32 * Split;
  static constexpr int sums = Rows * Outputs, bytes = 16;
  static_assert(sums <= 32, "ops::matmul: a warp has as many lanes as sums to finish");
  static_assert(warps % Split == 0, "ops::matmul: warps that share a column are of one block");

  template <int V, class OB>
  static __device__ core::Pack<TB, V> weight(OB const& ob, int column, int k) {
    return core::load_streaming(reinterpret_cast<core::Pack<TB, V> const*>(ob.at(column, k)));
  }

  /// Add what the calling lane's pieces contribute to the sums. V: elements of a piece that lie inside k together.
  template <int V, class OA, class OB>
  static __device__ void accumulate(OA const& oa, OB const& ob, int column0, Sum (&sum)[Rows][Outputs]) {
    const int lane = static_cast<int>(program_id<TopologyScope::thread>()) % lanes;
    int columns[Outputs];
    CUTE_UNROLL
    for (int c = 0; c < Outputs; ++c) columns[c] = column0 + c < ob.rows ? column0 + c : ob.rows - 1;
    int k = lane * V;
    for (; k + (Unroll - 1) * lanes * V < ob.k; k += Unroll * lanes * V) step<V, Unroll>(oa, ob, columns, k, sum);
    for (; k < ob.k; k += lanes * V) step<V, 1>(oa, ob, columns, k, sum);
  }

  template <int V, int Pieces, class OA, class OB>
  static __device__ void step(OA const& oa, OB const& ob, int const (&columns)[Outputs], int k,
                              Sum (&sum)[Rows][Outputs]) {
    core::Pack<TB, V> w[Pieces][Outputs];
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p)
      CUTE_UNROLL
      for (int c = 0; c < Outputs; ++c) w[p][c] = weight<V>(ob, columns[c], k + p * lanes * V);
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p)
      CUTE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const auto x = *reinterpret_cast<core::Pack<TA, V> const*>(oa.at(r, k + p * lanes * V));
        CUTE_UNROLL
        for (int c = 0; c < Outputs; ++c) multiply(x, w[p][c], sum[r][c]);
      }
  }

  template <int V>
  static __device__ void multiply(core::Pack<TA, V> const& x, core::Pack<TB, V> const& w, Sum& sum) {
    CUTE_UNROLL
    for (int i = 0; i < V; ++i) {
      const Sum left = static_cast<Sum>(widen(x.value[i])), right = static_cast<Sum>(widen(w.value[i]));
      if constexpr (detail::real<Sum>) {
        sum += left * right;
      } else {
        sum = add_op{}(sum, mul_op{}(left, right));
      }
    }
  }

  /// Whether pieces of a and b start at multiples of their size, and k ends with one.
  template <class OA, class OB>
  static __device__ bool in_pieces(OA const& oa, OB const& ob) {
    constexpr int a_bytes = piece * int(sizeof(TA)) < 16 ? piece * int(sizeof(TA)) : 16;
    return ob.allows_pieces() && core::is_aligned<a_bytes>(oa.data) &&
           (Rows == 1 || static_cast<long long>(oa.row_stride) % piece == 0) && ob.k % piece == 0;
  }

  template <class A, class B, class D, class Epilogue>
  static __device__ void run(A const& a, B const& b, D const& d, void*, Epilogue const& epilogue) {
    constexpr int skip = D::rank - 2;
    const int thread = program_id<TopologyScope::thread>(), group = thread / lanes;
    const long long columns = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    const long long runs = (columns + Outputs - 1) / Outputs, items = runs * batches;
    const long long step = static_cast<long long>(program_dim<core::level_in<TopologyScope::cta, D>>()) * groups;
    // All groups of a block go round together, as they meet where several warps share a column.
    for (long long first = static_cast<long long>(program_id<core::level_in<TopologyScope::cta, D>>()) * groups;
         first < items; first += step) {
      const bool any = first + group < items;
      if (Split == 1 && !any) return;
      const long long item = any ? first + group : items - 1;
      const int batch = static_cast<int>(item / runs), column0 = static_cast<int>(item % runs) * Outputs;
      auto const oa = operand_of<0, 1>(a, batch);
      auto const ob = operand_of<1, 0>(b, batch);
      Sum sum[Rows][Outputs] = {};
      if (in_pieces(oa, ob)) {
        accumulate<piece>(oa, ob, column0, sum);
      } else {
        accumulate<1>(oa, ob, column0, sum);
      }
      const Sum own = joined(sum);
      if (any && thread % lanes < sums) finish(own, result_of(d, batch), column0, static_cast<int>(columns), epilogue);
    }
  }

  /// The sums over all lanes, sum i in lane i of the warps that share the column.
  static __device__ Sum joined(Sum (&sum)[Rows][Outputs]) {
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32;
    Sum own = Sum(0);
    CUTE_UNROLL
    for (int i = 0; i < sums; ++i) {
      Sum total = sum[i / Outputs][i % Outputs];
      CUTE_UNROLL
      for (int apart = 16; apart > 0; apart /= 2) total = add_op{}(total, __shfl_xor_sync(0xffffffffu, total, apart));
      if (lane == i) own = total;
    }
    if constexpr (Split > 1) {
      // Not the caller's workspace: that is as large as other tiers need, and would keep blocks off the multiprocessor.
      __shared__ Sum of_warps[warps * sums];
      if (lane < sums) of_warps[thread / 32 * sums + lane] = own;
      __syncthreads();
      if (thread % lanes < sums)
        CUTE_UNROLL
        for (int other = 1; other < Split; ++other)
          own = add_op{}(own, of_warps[(thread / 32 + other) * sums + lane]);
      __syncthreads();
    }
    return own;
  }

  /// Lane i hands sum i over.
  template <class Out, class Epilogue>
  static __device__ void finish(Sum own, Out const& out, int column0, int columns, Epilogue const& epilogue) {
    const int lane = static_cast<int>(program_id<TopologyScope::thread>()) % 32;
    const int row = lane / Outputs, column = column0 + lane % Outputs;
    if (column < columns) epilogue(out, row, column, own);
  }
};

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
