/// \file matmul_simt.cuh
/// The matmul tier for every element type: tiles in shared memory, products on the ordinary pipes.
#pragma once

#include <tilefoundry/runtime/cuda/ops/binary_tags.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_tiles.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

template <class TA, class TB, int Threads>
struct SimtTier {
  static_assert(Threads >= 32 && Threads <= 1024, "ops::matmul: the block needs 32 to 1024 threads");
  static constexpr int workers = workers_of(Threads);
  static constexpr int bm = 64, bn = 64, bk = 16;
  static constexpr int columns = workers >= 512 ? 32 : workers >= 128 ? 16 : 8, rows = workers / columns;
  static constexpr int tm = bm / rows, tn = bn / columns;

  using Sum = stdx::common_type_t<accumulate_t<TA>, accumulate_t<TB>>;
  using SA = compute_t<TA>;
  using SB = compute_t<TB>;

  static constexpr int a_bytes = bk * (bm + 1) * int(sizeof(SA));
  static constexpr int b_offset = (a_bytes + 15) / 16 * 16;
  static constexpr int bytes = b_offset + bk * (bn + 1) * int(sizeof(SB));

  /// Rows of `op` by k into `to[k][row]`, zero outside; neighbouring threads follow the contiguous direction.
  template <int Outer, class S, class Op>
  static __device__ void stage(Op const& op, int row0, int k0, S* to) {
    for (int i = program_id<TopologyScope::thread>(); i < Outer * bk; i += Threads) {
      const int row = Op::k_contiguous ? i / bk : i % Outer, k = Op::k_contiguous ? i % bk : i / Outer;
      S value = S(0);
      if (row0 + row < op.rows && k0 + k < op.k) value = widen(op.load(row0 + row, k0 + k));
      to[k * (Outer + 1) + row] = value;
    }
  }

  template <class A, class B, class D, class Epilogue>
  static __device__ void run(A const& a, B const& b, D const& d, void* workspace, Epilogue const& epilogue) {
    SA* const sa = static_cast<SA*>(workspace);
    SB* const sb = reinterpret_cast<SB*>(static_cast<char*>(workspace) + b_offset);
    const int thread = program_id<TopologyScope::thread>(), ty = thread / columns, tx = thread % columns;
    for_each_tile<bm, bn>(d, [&](int batch, int row0, int column0) {
      auto const oa = operand_of<0, 1>(a, batch);
      auto const ob = operand_of<1, 0>(b, batch);
      Sum sum[tm][tn] = {};
      for (int k0 = 0; k0 < oa.k; k0 += bk) {
        __syncthreads();
        stage<bm>(oa, row0, k0, sa);
        stage<bn>(ob, column0, k0, sb);
        __syncthreads();
        for (int k = 0; k < bk && thread < workers; ++k) {
          Sum x[tm], y[tn];
          CUTE_UNROLL
          for (int i = 0; i < tm; ++i) x[i] = static_cast<Sum>(sa[k * (bm + 1) + ty + i * rows]);
          CUTE_UNROLL
          for (int j = 0; j < tn; ++j) y[j] = static_cast<Sum>(sb[k * (bn + 1) + tx + j * columns]);
          CUTE_UNROLL
          for (int i = 0; i < tm; ++i)
            CUTE_UNROLL
            for (int j = 0; j < tn; ++j) {
              if constexpr (detail::real<Sum>) {
                sum[i][j] += x[i] * y[j];
              } else {
                sum[i][j] = add_op{}(sum[i][j], mul_op{}(x[i], y[j]));
              }
            }
        }
      }
      if (thread >= workers) return;
      auto const out = result_of(d, batch);
      CUTE_UNROLL
      for (int i = 0; i < tm; ++i)
        CUTE_UNROLL
        for (int j = 0; j < tn; ++j) {
          const int row = row0 + ty + i * rows, column = column0 + tx + j * columns;
          if (row < oa.rows && column < ob.rows) epilogue(out, row, column, sum[i][j]);
        }
    });
  }
};

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
