/// \file matmul_pair.cuh
/// `ops::matmul_pair`: two products of the same few rows, whose weights are read in one pass.
#pragma once

#include <tilefoundry/runtime/cuda/ops/matmul.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// `One` for two right operands of equal extents: each warp takes the same columns of both, a lane the same pieces of k,
/// so that what is read of a is shared and sums are those of `One`.
template <class One, class TA, class TB, int Rows, int Outputs, int Unroll>
struct StreamPair {
  using Sum = typename One::Sum;
  static constexpr int lanes = One::lanes;

  template <int V, class OA, class OB>
  static __device__ void accumulate(OA const& oa, OB const& first, OB const& second, int column0,
                                    Sum (&sums)[2][Rows][Outputs]) {
    const int lane = static_cast<int>(program_id<TopologyScope::thread>()) % lanes;
    int columns[Outputs];
    CUTE_UNROLL
    for (int c = 0; c < Outputs; ++c) columns[c] = column0 + c < first.rows ? column0 + c : first.rows - 1;
    int k = lane * V;
    for (; k + (Unroll - 1) * lanes * V < first.k; k += Unroll * lanes * V)
      step<V, Unroll>(oa, first, second, columns, k, sums);
    for (; k < first.k; k += lanes * V) step<V, 1>(oa, first, second, columns, k, sums);
  }

  template <int V, int Pieces, class OA, class OB>
  static __device__ void step(OA const& oa, OB const& first, OB const& second, int const (&columns)[Outputs], int k,
                              Sum (&sums)[2][Rows][Outputs]) {
    core::Pack<TB, V> w[Pieces][2][Outputs];
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p)
      CUTE_UNROLL
      for (int c = 0; c < Outputs; ++c) {
        w[p][0][c] = One::template weight<V>(first, columns[c], k + p * lanes * V);
        w[p][1][c] = One::template weight<V>(second, columns[c], k + p * lanes * V);
      }
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p)
      CUTE_UNROLL
      for (int r = 0; r < Rows; ++r) {
        const auto x = *reinterpret_cast<core::Pack<TA, V> const*>(oa.at(r, k + p * lanes * V));
        CUTE_UNROLL
        for (int c = 0; c < Outputs; ++c) {
          One::multiply(x, w[p][0][c], sums[0][r][c]);
          One::multiply(x, w[p][1][c], sums[1][r][c]);
        }
      }
  }

  template <class A, class B, class D, class First, class Second>
  static __device__ void run(A const& a, B const& b, B const& other, D const& d, First const& first,
                             Second const& second) {
    constexpr int skip = D::rank - 2, groups = One::groups, split = One::split;
    const int thread = program_id<TopologyScope::thread>(), group = thread / lanes;
    const long long columns = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    const long long runs = (columns + Outputs - 1) / Outputs, items = runs * batches;
    const long long turn = static_cast<long long>(program_dim<core::level_in<TopologyScope::cta, D>>()) * groups;
    for (long long start = static_cast<long long>(program_id<core::level_in<TopologyScope::cta, D>>()) * groups;
         start < items; start += turn) {
      const bool any = start + group < items;
      if (split == 1 && !any) return;
      const long long item = any ? start + group : items - 1;
      const int batch = static_cast<int>(item / runs), column0 = static_cast<int>(item % runs) * Outputs;
      auto const oa = operand_of<0, 1>(a, batch);
      auto const ob = operand_of<1, 0>(b, batch), oc = operand_of<1, 0>(other, batch);
      Sum sums[2][Rows][Outputs] = {};
      if (One::in_pieces(oa, ob) && One::in_pieces(oa, oc)) {
        accumulate<One::piece>(oa, ob, oc, column0, sums);
      } else {
        accumulate<1>(oa, ob, oc, column0, sums);
      }
      const Sum own[2] = {One::joined(sums[0]), One::joined(sums[1])};
      if (any && thread % lanes < One::sums) {
        auto const out = result_of(d, batch);
        One::finish(own[0], out, column0, static_cast<int>(columns), first);
        One::finish(own[1], out, column0, static_cast<int>(columns), second);
      }
    }
  }
};

}  // namespace matmul_impl

/// Two `matmul`s of the same a, of at most eight static rows, with b and `other` alike and contiguous along k. The thread
/// that hands a sum of the first to its epilogue then hands the second's of the same place to the second's, which may so
/// read what the first wrote there. All threads of all blocks call; blocks share the columns out. No workspace. What the
/// epilogues write is visible to other blocks after a grid barrier or the end of the kernel. The caller has waited for
/// earlier launches.
template <class A, class B, class D, class First, class Second>
__device__ void matmul_pair(A const& a, B const& b, B const& other, D const& d, First const& first,
                            Second const& second) {
  using namespace matmul_impl;
  static_assert(streams<A, B, D>(), "ops::matmul_pair: at most eight static rows, and weights contiguous along k");
  constexpr int threads = static_threads<D>(), rows = static_rows<view_t<D>>(), columns = static_columns<view_t<D>>();
  constexpr int outputs = columns >= 8192 ? 2 : 1, unroll = 2;
  constexpr int split = outputs == 1 && columns > 0 ? warps_per_column(columns, threads / 32) : 1;
  using TA = element_t<A>;
  using TB = element_t<B>;
  using One = StreamTier<TA, TB, threads, rows, outputs, unroll, split>;
  StreamPair<One, TA, TB, rows, outputs, unroll>::run(
      ::tilefoundry::detail::plain_view(a), ::tilefoundry::detail::plain_view(b),
      ::tilefoundry::detail::plain_view(other), ::tilefoundry::detail::plain_view(d), first, second);
}

}  // namespace ops
}  // namespace tilefoundry
