/// \file matmul_few_rows.cuh
/// The tier for few rows of products that share their left operand or compute an operand: every right element is read
/// once, by neighbouring lanes where they lie side by side.
#pragma once

#include <tilefoundry/runtime/cuda/ops/binary_tags.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_operands.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// `Rows` rows times `N` right operands. Elements that follow each other along columns: lanes take a column each, warps
/// share k, and their sums are joined in shared memory. Along k: a warp takes a column, its lanes share k.
template <class TA, class TB, int Threads, int N, int Rows>
struct GroupStreamTier {
  using Sum = stdx::common_type_t<accumulate_t<TA>, accumulate_t<TB>>;
  static constexpr int warps = Threads / 32, sums = N * Rows;
  static constexpr int unroll = N * Rows <= 2 ? 16 : 8;
  static constexpr int held = warps * 32 * int(sizeof(Sum));  // one sum of every thread
  static constexpr int bytes = sums * held <= 48 * 1024 ? sums * held : held;
  static constexpr bool at_once = sums * held <= 48 * 1024;
  static_assert(held <= 48 * 1024, "ops::matmul: the sums of a block exceed static shared memory");
  using Sums = Sum[N][Rows];

  static __device__ void add(Sum& sum, Sum left, Sum right) {
    if constexpr (detail::real<Sum>) {
      sum += left * right;
    } else {
      sum = add_op{}(sum, mul_op{}(left, right));
    }
  }

  /// Add the products of `column` at `first`, `first + step`, ... below `end`.
  template <class OA, class All>
  static __device__ void accumulate(OA const& oa, All const& all, int batch, int column, int first, int step, int end,
                                    Sums& sum) {
    int k = first;
    for (; k + (unroll - 1) * step < end; k += unroll * step) pieces<unroll>(oa, all, batch, column, k, step, sum);
    for (; k < end; k += step) pieces<1>(oa, all, batch, column, k, step, sum);
  }

  template <int Pieces, class OA, class All>
  static __device__ void pieces(OA const& oa, All const& all, int batch, int column, int k, int step, Sums& sum) {
    TB right[N][Pieces];
    for_each_right(all, [&](auto const& b, auto n) {
      auto const ob = rows_of<1, 0>(b, batch);
      CUTE_UNROLL
      for (int p = 0; p < Pieces; ++p) right[decltype(n)::value][p] = ob.load(column, k + p * step);
    });
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p)
      CUTE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const Sum left = static_cast<Sum>(widen(oa.load(r, k + p * step)));
        CUTE_UNROLL
        for (int n = 0; n < N; ++n) add(sum[n][r], left, static_cast<Sum>(widen(right[n][p])));
      }
  }

  template <class A, class All, class D, class Epilogue>
  static __device__ void run(A const& a, All const& all, D const& d, void* workspace, Epilogue const& epilogue) {
    constexpr int skip = D::rank - 2;
    using OB = decltype(rows_of<1, 0>(cute::get<0>(all.all), 0));
    constexpr int together = OB::k_contiguous ? warps : 32;  // columns of a block
    const long long columns = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    const long long groups = (columns + together - 1) / together;
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32, warp = thread / 32;
    for (long long item = program_id<core::level_in<TopologyScope::cta, D>>(); item < groups * batches;
         item += program_dim<core::level_in<TopologyScope::cta, D>>()) {
      const int batch = static_cast<int>(item / groups), first = static_cast<int>(item % groups) * together;
      auto const oa = rows_of<0, 1>(a, batch);
      Sums sum = {};
      if constexpr (OB::k_contiguous) {
        const int column = first + warp;
        if (column >= columns) continue;  // the whole warp
        accumulate(oa, all, batch, column, lane, 32, oa.k, sum);
        join_lanes(sum);
        CUTE_UNROLL
        for (int r = 0; r < Rows; ++r)
          if (lane == r) hand_over(sum, r, batch, column, epilogue);
      } else {
        const int column = first + lane;
        if (column < columns) accumulate(oa, all, batch, column, warp, warps, oa.k, sum);
        join_warps(sum, static_cast<Sum*>(workspace), warp, lane);
        CUTE_UNROLL
        for (int r = 0; r < Rows; ++r)
          if (warp == r % warps && column < columns) hand_over(sum, r, batch, column, epilogue);
      }
    }
  }

  static __device__ void join_lanes(Sums& sum) {
    CUTE_UNROLL
    for (int n = 0; n < N; ++n)
      CUTE_UNROLL
      for (int r = 0; r < Rows; ++r)
        CUTE_UNROLL
        for (int apart = 16; apart > 0; apart /= 2)
          sum[n][r] = add_op{}(sum[n][r], __shfl_xor_sync(0xffffffffu, sum[n][r], apart));
  }

  /// Every thread gets its lane's sums over all warps, joined in their order.
  static __device__ void join_warps(Sums& sum, Sum* memory, int warp, int lane) {
    constexpr int turns = at_once ? 1 : sums, each = at_once ? sums : 1;
    for (int turn = 0; turn < turns; ++turn) {
      __syncthreads();
      CUTE_UNROLL
      for (int i = 0; i < sums; ++i)
        if (i / each == turn) memory[((i % each) * warps + warp) * 32 + lane] = sum[i / Rows][i % Rows];
      __syncthreads();
      CUTE_UNROLL
      for (int i = 0; i < sums; ++i) {
        if (i / each != turn) continue;
        Sum total = Sum(0);
        for (int w = 0; w < warps; ++w) total = add_op{}(total, memory[((i % each) * warps + w) * 32 + lane]);
        sum[i / Rows][i % Rows] = total;
      }
    }
  }

  template <class Epilogue>
  static __device__ void hand_over(Sums const& sum, int row, int batch, int column, Epilogue const& epilogue) {
    GroupSums<Sum, N> out;
    CUTE_UNROLL
    for (int n = 0; n < N; ++n) out.value[n] = sum[n][row];
    epilogue(batch, row, column, out);
  }
};

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
