/// \file matmul_mma.cuh
/// The matmul tier on `mma.sync` (sm_80 and later): 16-bit tiles in padded shared memory, two stages of cp.async.
#pragma once

#include <tilefoundry/runtime/cuda/ops/matmul_tiles.cuh>
#include <tilefoundry/runtime/cuda/ops/mma_atoms.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// S: the 16-bit type that both operands are staged in.
template <class S, int Threads>
struct MmaTier {
  static constexpr int workers = workers_of(Threads), warps = workers / 32;
  static constexpr int warp_rows = warps == 16 ? 4 : warps >= 2 ? 2 : 1, warp_columns = warps / warp_rows;
  static constexpr int wm = warps == 16 ? 32 : 64, wn = 32;
  static constexpr int bm = warp_rows * wm, bn = warp_columns * wn, bk = 32, stages = 2;
  static constexpr int pad = 8;  // one piece: eight rows then start in different banks

  template <int Outer>
  static constexpr int tile_elements = (Outer * (bk + pad) > bk * (Outer + pad)) ? Outer * (bk + pad) : bk * (Outer + pad);
  static constexpr int stage_elements = tile_elements<bm> + tile_elements<bn>;
  static constexpr int bytes = stages * stage_elements * 2;
  static_assert(bytes <= 48 * 1024, "ops::matmul: the mma.sync tier's tiles exceed static shared memory");

  template <bool KMajor, int Outer, class Op>
  static __device__ void stage(Op const& op, int row0, int k0, bool pieces, S* to) {
    constexpr int pitch = (KMajor ? bk : Outer) + pad;
    stage_tile<KMajor, Outer, bk, Threads, S>(op, row0, k0, pieces,
                                              [&](int line, int piece) { return to + line * pitch + piece * 8; });
  }

  /// Address that the lane gives to ldmatrix for the 16x16 block at (row, k): four 8x8 matrices, `RowsFirst` ordered
  /// (rows 0-7, rows 8-15) for each half of k, else the halves of k for each eight rows.
  template <bool KMajor, int Outer, bool RowsFirst>
  static __device__ S const* lane_address(S const* tile, int row, int k, int lane) {
    const int i = lane / 8, outer = (RowsFirst ? i & 1 : i >> 1) * 8, inner = (RowsFirst ? i >> 1 : i & 1) * 8;
    if constexpr (KMajor) {
      return tile + (row + outer + lane % 8) * (bk + pad) + k + inner;
    } else {
      return tile + (k + inner + lane % 8) * (Outer + pad) + row + outer;
    }
  }

  template <bool AK, bool BK>
  static __device__ void multiply(S const* sa, S const* sb, int row, int column, int lane,
                                  float (&sum)[wm / 16][wn / 8][4]) {
    using Atom = atom::mma_sync<S>;
    CUTE_UNROLL
    for (int k = 0; k < bk; k += 16) {
      uint32_t fa[wm / 16][4], fb[wn / 8][2];
      CUTE_UNROLL
      for (int i = 0; i < wm / 16; ++i)
        atom::ldmatrix_x4<!AK>(fa[i], lane_address<AK, bm, true>(sa, row + i * 16, k, lane));
      CUTE_UNROLL
      for (int j = 0; j < wn / 16; ++j) {
        uint32_t two[4];
        atom::ldmatrix_x4<!BK>(two, lane_address<BK, bn, false>(sb, column + j * 16, k, lane));
        fb[2 * j][0] = two[0], fb[2 * j][1] = two[1], fb[2 * j + 1][0] = two[2], fb[2 * j + 1][1] = two[3];
      }
      CUTE_UNROLL
      for (int i = 0; i < wm / 16; ++i)
        CUTE_UNROLL
        for (int j = 0; j < wn / 8; ++j) Atom::fma(sum[i][j], fa[i], fb[j]);
    }
  }

  template <class A, class B, class D, class Epilogue>
  static __device__ void run(A const& a, B const& b, D const& d, void* workspace, Epilogue const& epilogue) {
    using OA = decltype(operand_of<0, 1>(a, 0));
    using OB = decltype(operand_of<1, 0>(b, 0));
    constexpr bool ak = !OA::row_contiguous, bkm = !OB::row_contiguous;
    S* const smem = static_cast<S*>(workspace);
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32, warp = thread / 32;
    const int wrow = warp / warp_columns * wm, wcolumn = warp % warp_columns * wn;
    for_each_tile<bm, bn>(d, [&](int batch, int row0, int column0) {
      auto const oa = operand_of<0, 1>(a, batch);
      auto const ob = operand_of<1, 0>(b, batch);
      const bool pa = oa.allows_pieces(), pb = ob.allows_pieces();
      const int steps = (oa.k + bk - 1) / bk;
      auto load = [&](int step) {
        S* const to = smem + step % stages * stage_elements;
        if (step < steps) {
          stage<ak, bm>(oa, row0, step * bk, pa, to);
          stage<bkm, bn>(ob, column0, step * bk, pb, to + tile_elements<bm>);
        }
        cp_async_commit();
      };
      float sum[wm / 16][wn / 8][4] = {};
      __syncthreads();  // the previous tile's last stage is still being read
      load(0);
      for (int step = 0; step < steps; ++step) {
        cp_async_wait<0>();
        __syncthreads();
        load(step + 1);  // its slot was read before the barrier above
        S const* const tile = smem + step % stages * stage_elements;
        if (thread < workers) multiply<ak, bkm>(tile, tile + tile_elements<bm>, wrow, wcolumn, lane, sum);
      }
      if (thread >= workers) return;
      auto const out = result_of(d, batch);
      CUTE_UNROLL
      for (int i = 0; i < wm / 16; ++i)
        CUTE_UNROLL
        for (int j = 0; j < wn / 8; ++j)
          CUTE_UNROLL
          for (int s = 0; s < 4; ++s) {
            const int row = row0 + wrow + i * 16 + atom::mma_sync<S>::sum_row(lane, s);
            const int column = column0 + wcolumn + j * 8 + atom::mma_sync<S>::sum_column(lane, s);
            if (row < oa.rows && column < ob.rows) epilogue(out, row, column, sum[i][j][s]);
          }
    });
  }
};

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
