/// \file matmul_group.cuh
/// Products that share their left operand, and operands that are computed while they are read.
///
/// `ops::matmul` with `right_operands` gives every element's sums together. Tiles are staged in shared memory by all
/// threads, computed elements through registers; the tiers of the copy engine and of `wgmma` take no part.
#pragma once

#include <tilefoundry/runtime/cuda/ops/matmul.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_few_rows.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_pack_mma.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// Products of any element type, `N` at a time.
template <class TA, class TB, int Threads, int N>
struct GroupSimtTier {
  using One = SimtTier<TA, TB, Threads>;
  using Sum = typename One::Sum;
  using SA = typename One::SA;
  using SB = typename One::SB;
  static constexpr int right_elements = One::bk * (One::bn + 1);
  static constexpr int bytes = One::b_offset + N * right_elements * int(sizeof(SB));
  static_assert(bytes <= 48 * 1024, "ops::matmul: the tiles of all right operands exceed static shared memory");

  template <class A, class All, class D, class Epilogue>
  static __device__ void run(A const& a, All const& all, D const& d, void* workspace, Epilogue const& epilogue) {
    constexpr int bm = One::bm, bn = One::bn, bk = One::bk, tm = One::tm, tn = One::tn;
    SA* const sa = static_cast<SA*>(workspace);
    SB* const sb = reinterpret_cast<SB*>(static_cast<char*>(workspace) + One::b_offset);
    const int thread = program_id<TopologyScope::thread>(), ty = thread / One::columns, tx = thread % One::columns;
    for_each_tile<bm, bn>(d, [&](int batch, int row0, int column0) {
      auto const oa = rows_of<0, 1>(a, batch);
      const int columns = static_cast<int>(rows_of<1, 0>(cute::get<0>(all.all), batch).rows);
      Sum sum[N][tm][tn] = {};
      for (int k0 = 0; k0 < oa.k; k0 += bk) {
        __syncthreads();
        One::template stage<bm>(oa, row0, k0, sa);
        for_each_right(all, [&](auto const& b, auto n) {
          One::template stage<bn>(rows_of<1, 0>(b, batch), column0, k0, sb + decltype(n)::value * right_elements);
        });
        __syncthreads();
        for (int k = 0; k < bk && thread < One::workers; ++k) {
          Sum x[tm];
          CUTE_UNROLL
          for (int i = 0; i < tm; ++i) x[i] = static_cast<Sum>(sa[k * (bm + 1) + ty + i * One::rows]);
          CUTE_UNROLL
          for (int n = 0; n < N; ++n)
            CUTE_UNROLL
            for (int j = 0; j < tn; ++j) {
              const Sum y = static_cast<Sum>(sb[n * right_elements + k * (bn + 1) + tx + j * One::columns]);
              CUTE_UNROLL
              for (int i = 0; i < tm; ++i) {
                if constexpr (detail::real<Sum>) {
                  sum[n][i][j] += x[i] * y;
                } else {
                  sum[n][i][j] = add_op{}(sum[n][i][j], mul_op{}(x[i], y));
                }
              }
            }
        }
      }
      if (thread >= One::workers) return;
      CUTE_UNROLL
      for (int i = 0; i < tm; ++i)
        CUTE_UNROLL
        for (int j = 0; j < tn; ++j) {
          const int row = row0 + ty + i * One::rows, column = column0 + tx + j * One::columns;
          GroupSums<Sum, N> sums;
          CUTE_UNROLL
          for (int n = 0; n < N; ++n) sums.value[n] = sum[n][i][j];
          if (row < oa.rows && column < columns) epilogue(batch, row, column, sums);
        }
    });
  }
};

/// Products on `mma.sync` (sm_80 and later), `N` at a time: narrower tiles than one alone takes, so that the sums of all
/// fit in registers. S: the 16-bit type that all operands are staged in.
template <class S, int Threads, int N>
struct GroupMmaTier {
  using One = MmaTier<S, Threads>;
  static constexpr int wm = One::wm, wn = N == 1 ? One::wn : 16;
  static constexpr int bm = One::bm, bn = One::warp_columns * wn, bk = One::bk, stages = N <= 2 ? 2 : 1;
  static constexpr int left_elements = One::template tile_elements<bm>, right_elements = One::template tile_elements<bn>;
  static constexpr int stage_elements = left_elements + N * right_elements, bytes = stages * stage_elements * 2;
  static_assert(bytes <= 48 * 1024, "ops::matmul: the tiles of all right operands exceed static shared memory");
  using Sums = float[wm / 16][wn / 8][4];

  template <bool AK>
  static __device__ void left(S const* tile, int row, int k, int lane, uint32_t (&out)[wm / 16][4]) {
    CUTE_UNROLL
    for (int i = 0; i < wm / 16; ++i)
      atom::ldmatrix_x4<!AK>(out[i], One::template lane_address<AK, bm, true>(tile, row + i * 16, k, lane));
  }

  template <bool BK>
  static __device__ void multiply(uint32_t const (&fa)[wm / 16][4], S const* tile, int column, int k, int lane, Sums& sum) {
    CUTE_UNROLL
    for (int j = 0; j < wn / 16; ++j) {
      uint32_t two[4];
      atom::ldmatrix_x4<!BK>(two, One::template lane_address<BK, bn, false>(tile, column + j * 16, k, lane));
      const uint32_t even[2] = {two[0], two[1]}, odd[2] = {two[2], two[3]};
      CUTE_UNROLL
      for (int i = 0; i < wm / 16; ++i) {
        atom::mma_sync<S>::fma(sum[i][2 * j], fa[i], even);
        atom::mma_sync<S>::fma(sum[i][2 * j + 1], fa[i], odd);
      }
    }
  }

  template <class A, class All, class D, class Epilogue>
  static __device__ void run(A const& a, All const& all, D const& d, void* workspace, Epilogue const& epilogue) {
    using OA = decltype(rows_of<0, 1>(a, 0));
    constexpr bool ak = !OA::row_contiguous;
    S* const smem = static_cast<S*>(workspace);
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32, warp = thread / 32;
    const int wrow = warp / One::warp_columns * wm, wcolumn = warp % One::warp_columns * wn;
    for_each_tile<bm, bn>(d, [&](int batch, int row0, int column0) {
      auto const oa = rows_of<0, 1>(a, batch);
      const int columns = rows_of<1, 0>(cute::get<0>(all.all), batch).rows, steps = (oa.k + bk - 1) / bk;
      auto load = [&](int step) {
        S* const to = smem + step % stages * stage_elements;
        if (step < steps) {
          One::template stage<ak, bm>(oa, row0, step * bk, oa.allows_pieces(), to);
          for_each_right(all, [&](auto const& b, auto n) {
            auto const ob = rows_of<1, 0>(b, batch);
            using OB = stdx::remove_cvref_t<decltype(ob)>;
            S* const own = to + left_elements + decltype(n)::value * right_elements;
            One::template stage<!OB::row_contiguous, bn>(ob, column0, step * bk, ob.allows_pieces(), own);
          });
        }
        cp_async_commit();
      };
      Sums sum[N] = {};
      __syncthreads();  // the previous tile's last stage is still being read
      load(0);
      for (int step = 0; step < steps; ++step) {
        cp_async_wait<0>();
        __syncthreads();
        if (stages > 1) load(step + 1);  // its slot was read before the barrier above
        S const* const tile = smem + step % stages * stage_elements;
        if (thread < One::workers) {
          CUTE_UNROLL
          for (int k = 0; k < bk; k += 16) {
            uint32_t fa[wm / 16][4];
            left<ak>(tile, wrow, k, lane, fa);
            for_each_right(all, [&](auto const& b, auto n) {
              using OB = stdx::remove_cvref_t<decltype(rows_of<1, 0>(b, 0))>;
              constexpr int i = decltype(n)::value;
              S const* const own = tile + left_elements + i * right_elements;
              multiply<!OB::row_contiguous>(fa, own, wcolumn, k, lane, sum[i]);
            });
          }
        }
        if (stages == 1) {
          __syncthreads();
          load(step + 1);
        }
      }
      if (thread >= One::workers) return;
      CUTE_UNROLL
      for (int i = 0; i < wm / 16; ++i)
        CUTE_UNROLL
        for (int j = 0; j < wn / 8; ++j)
          CUTE_UNROLL
          for (int s = 0; s < 4; ++s) {
            const int row = row0 + wrow + i * 16 + atom::mma_sync<S>::sum_row(lane, s);
            const int column = column0 + wcolumn + j * 8 + atom::mma_sync<S>::sum_column(lane, s);
            GroupSums<float, N> sums;
            CUTE_UNROLL
            for (int n = 0; n < N; ++n) sums.value[n] = sum[n][i][j][s];
            if (row < oa.rows && column < columns) epilogue(batch, row, column, sums);
          }
    });
  }
};

/// Tier of a group: by rows where they are few and known (`FewRows`, else 0), by element types, block and chip.
template <class A, class B, int Threads, int N, int FewRows, class S = typename stage_type<A, B>::type>
__device__ constexpr auto select_group_tier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr bool has_mma = true;
#else
  constexpr bool has_mma = false;
#endif
  if constexpr (FewRows >= 1 && FewRows <= 8) {
    return GroupStreamTier<A, B, Threads, N, FewRows>{};
  } else if constexpr (!stdx::is_void_v<S> && has_mma && workers_of(Threads) <= 256) {
    return GroupMmaTier<S, Threads, N>{};
  } else {
    return GroupSimtTier<A, B, Threads, N>{};
  }
}

template <class A, class B, int Threads, int N, int FewRows, int Columns>
__device__ constexpr auto tier_of_group() {
  constexpr int most = are_halves<A, B> ? 64 : 8;
  if constexpr (N == 1 && FewRows >= 1 && FewRows <= most && (is_packed<A> || is_packed<B>)) {
    return select_pack_tier<A, B, Threads, FewRows, Columns>();
  } else {
    return select_group_tier<typename element_of<A>::type, typename element_of<B>::type, Threads, N, FewRows>();
  }
}

template <class A, class All, int Threads, int FewRows, int Columns>
struct group_tier;
template <class A, class B, class... Others, int Threads, int FewRows, int Columns>
struct group_tier<A, RightOperands<B, Others...>, Threads, FewRows, Columns> {
  using right = typename element_of<B>::type;
  static_assert((stdx::is_same_v<right, typename element_of<Others>::type> && ...),
                "ops::matmul: right operands that share a pass have one element type");
  using type = decltype(tier_of_group<A, B, Threads, 1 + int(sizeof...(Others)), FewRows, Columns>());
};

}  // namespace matmul_impl

/// Shared memory that `matmul` with the right operands `All` needs in a block of `Threads`, aligned to 16 bytes; at most
/// 48 KiB. `Rows`, `Columns`: of the result where they are static, else 0. A constant, the same in every thread.
template <class A, class All, int Threads, int Rows, int Columns = 0>
__device__ constexpr int group_workspace_bytes() {
  using matmul_impl::group_tier;
  return group_tier<stdx::remove_cv_t<A>, stdx::remove_cv_t<All>, Threads, Rows, Columns>::type::bytes;
}

/// For every element of the result the sums over k of a(m, k) b(k, n) of all right operands b, which share one pass over
/// a: `epilogue(batch, m, n, sums)`, by the thread that holds them.
///
/// As for one right operand: all threads of all blocks call, sums are float (double for double, 64-bit for integers), in
/// a fixed order. `place` gives the result's extents and is not touched. `workspace`: `group_workspace_bytes` bytes of
/// shared memory at a multiple of 16, used between block barriers. What the epilogue stores is visible to other blocks
/// after a grid barrier or the end of the kernel.
template <class A, class... B, class Place, class Epilogue>
__device__ void matmul(A const& a, RightOperands<B...> const& b, Place& place, void* workspace,
                       Epilogue const& epilogue) {
  constexpr int threads = matmul_impl::static_threads<Place>();
  constexpr int rows = matmul_impl::static_rows<matmul_impl::view_t<Place>>();
  constexpr int columns = matmul_impl::static_columns<matmul_impl::view_t<Place>>();
  using Tier = typename matmul_impl::group_tier<A, RightOperands<B...>, threads, rows, columns>::type;
  Tier::run(a, b, place, workspace, epilogue);
}

}  // namespace ops
}  // namespace tilefoundry
