/// \file matmul_wgmma.cuh
/// The plain matmul tier on `wgmma` (sm_90a): one 64-row slab per warpgroup, swizzled tiles staged by cp.async.
#pragma once

#include <tilefoundry/runtime/cuda/ops/matmul_tiles.cuh>
#include <tilefoundry/runtime/cuda/ops/wgmma.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// S: the 16-bit type that both operands are staged in.
template <class S, int Threads>
struct WgmmaTier {
  static constexpr int workers = workers_of(Threads), groups = workers / 128;
  static constexpr int bm = 64 * groups, bn = groups == 1 ? 128 : 64, bk = 64;
  static constexpr int stage_bytes = (bm + bn) * 128;
  static constexpr int stages = 2 * stage_bytes <= 48 * 1024 ? 2 : 1;
  static constexpr int bytes = stages * stage_bytes;
  static_assert(bytes <= 48 * 1024, "ops::matmul: the wgmma tier's tiles exceed static shared memory");

  /// Tile of `Outer` rows by 64 k at `to`: 128-byte rows of k, or per 64 rows a chunk of 64 lines of k.
  template <bool KMajor, int Outer, class Op>
  static __device__ void stage(Op const& op, int row0, int k0, bool pieces, char* to) {
    stage_tile<KMajor, Outer, bk, Threads, S>(op, row0, k0, pieces, [&](int line, int piece) {
      const int chunk = KMajor ? 0 : piece / 8 * 8192;
      return reinterpret_cast<S*>(to + chunk + atom::swizzled(line, KMajor ? piece : piece % 8));
    });
  }

  template <bool AK, bool BK>
  static __device__ void multiply(char const* sa, char const* sb, int group, float (&sum)[bn / 2]) {
    using Atom = atom::wgmma<S, bn, AK ? atom::Major::k : atom::Major::outer, BK ? atom::Major::k : atom::Major::outer>;
    const uint64_t da = atom::descriptor(sa + group * 8192, 8192), db = atom::descriptor(sb, 8192);
    atom::wgmma_fence();
    CUTE_UNROLL
    for (int k = 0; k < bk / 16; ++k)
      Atom::fma(sum, atom::advance(da, k * Atom::a_step), atom::advance(db, k * Atom::b_step));
    atom::wgmma_commit();
    atom::wgmma_wait<0>();
  }

  template <class A, class B, class D, class Epilogue>
  static __device__ void run(A const& a, B const& b, D const& d, void* workspace, Epilogue const& epilogue) {
    using OA = decltype(operand_of<0, 1>(a, 0));
    using OB = decltype(operand_of<1, 0>(b, 0));
    constexpr bool ak = !OA::row_contiguous, bkm = !OB::row_contiguous;
    char* const smem = static_cast<char*>(workspace);
    const int thread = program_id<TopologyScope::thread>(), group = thread / 128;
    for_each_tile<bm, bn>(d, [&](int batch, int row0, int column0) {
      auto const oa = operand_of<0, 1>(a, batch);
      auto const ob = operand_of<1, 0>(b, batch);
      const bool pa = oa.allows_pieces(), pb = ob.allows_pieces();
      const int steps = (oa.k + bk - 1) / bk;
      auto load = [&](int step) {
        char* const to = smem + step % stages * stage_bytes;
        if (step < steps) {
          stage<ak, bm>(oa, row0, step * bk, pa, to);
          stage<bkm, bn>(ob, column0, step * bk, pb, to + bm * 128);
        }
        cp_async_commit();
      };
      float sum[bn / 2] = {};
      __syncthreads();  // the previous tile's last stage is still being read
      load(0);
      for (int step = 0; step < steps; ++step) {
        cp_async_wait<0>();
        atom::proxy_fence();
        __syncthreads();
        if (stages > 1) load(step + 1);  // every group had finished with its slot before the barrier above
        char const* const tile = smem + step % stages * stage_bytes;
        if (thread < workers) multiply<ak, bkm>(tile, tile + bm * 128, group, sum);
        if (stages == 1) {
          __syncthreads();
          load(step + 1);
        }
      }
      if (thread >= workers) return;
      auto const out = result_of(d, batch);
      using Atom = atom::wgmma<S, bn>;
      CUTE_UNROLL
      for (int s = 0; s < bn / 2; ++s) {
        const int row = row0 + group * 64 + Atom::sum_row(thread % 128, s);
        const int column = column0 + Atom::sum_column(thread % 128, s);
        if (row < oa.rows && column < ob.rows) epilogue(out, row, column, sum[s]);
      }
    });
  }
};

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
