/// \file matmul_epilogue.cuh
/// What `ops::matmul` does with its sums.
#pragma once

#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {
namespace ops {

/// The plain epilogue of `matmul`: round the sum into the result.
struct store_result {
  template <class D, class Sum>
  __device__ void operator()(D const& d, int row, int column, Sum sum) const {
    using T = stdx::remove_cv_t<typename D::value_type>;
    auto* const to = const_cast<T*>(::tilefoundry::detail::raw(d)) +
                     static_cast<long long>(row) * cute::stride<0>(d.layout()) +
                     static_cast<long long>(column) * cute::stride<1>(d.layout());
    *to = convert<T>(sum);
  }
};

/// An epilogue that can take `Width` neighbouring columns of a row together: `function(d, row, column, pack)`, pack a
/// `detail::Pack<Sum, 1>` or, where `wide` holds, a `detail::Pack<Sum, Width>` whose first column is a multiple of
/// `Width`.
template <int Width, class Function>
struct packed_epilogue {
  Function const& function;
  bool wide;

  template <class D, class Sum>
  __device__ void operator()(D const& d, int row, int column, Sum sum) const {
    function(d, row, column, ::tilefoundry::detail::Pack<Sum, 1>{{sum}});
  }
};

/// `packed_epilogue` of a function that outlives it; any thread.
template <int Width, class Function>
__device__ packed_epilogue<Width, Function> make_packed_epilogue(Function const& function, bool wide) {
  return {function, wide};
}

namespace matmul_impl {

template <class Epilogue>
inline constexpr int epilogue_width = 1;
template <int Width, class Function>
inline constexpr int epilogue_width<packed_epilogue<Width, Function>> = Width;

/// Four runs of eight lie across the four lanes of a quad, of each run two neighbours in each lane: `parts[i]` are the
/// calling lane's two of run i. After, `run` is the run whose number is the lane's in its quad. All lanes of a warp
/// call.
__device__ inline void gather_run(float2 const (&parts)[4], float (&run)[8]) {
  const unsigned lane = threadIdx.x;
  const bool odd = lane & 1u, high = lane & 2u;
  auto const exchanged = [](float2 v, int with) {
    return make_float2(__shfl_xor_sync(0xffffffffu, v.x, with), __shfl_xor_sync(0xffffffffu, v.y, with));
  };
  // Lanes 2i and 2i + 1: of each two runs the even lane keeps the first.
  float2 four[2][2];
  CUTE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const float2 kept = odd ? parts[2 * i + 1] : parts[2 * i];
    const float2 theirs = exchanged(odd ? parts[2 * i] : parts[2 * i + 1], 1);
    four[i][0] = odd ? theirs : kept;
    four[i][1] = odd ? kept : theirs;
  }
  // Then the low two lanes keep the first of what is left.
  CUTE_UNROLL
  for (int i = 0; i < 2; ++i) {
    const float2 kept = high ? four[1][i] : four[0][i];
    const float2 theirs = exchanged(high ? four[0][i] : four[1][i], 2);
    const float2 first = high ? theirs : kept, second = high ? kept : theirs;
    run[2 * i] = first.x, run[2 * i + 1] = first.y;
    run[4 + 2 * i] = second.x, run[4 + 2 * i + 1] = second.y;
  }
}

/// Hand `N` neighbouring sums of a row over, as one pack where that is possible. `column` is a multiple of N.
template <int N, class Epilogue, class D, class Sum>
__device__ void finish_run(Epilogue const& epilogue, D const& d, int row, int column, int columns, Sum const (&sums)[N]) {
  constexpr int width = epilogue_width<Epilogue>;
  if constexpr (width > 1) {
    static_assert(N % width == 0, "ops::matmul: the epilogue's width does not divide the run of sums");
    if (epilogue.wide && column + N <= columns) {
      CUTE_UNROLL
      for (int i = 0; i < N; i += width) {
        ::tilefoundry::detail::Pack<Sum, width> pack;
        CUTE_UNROLL
        for (int j = 0; j < width; ++j) pack.value[j] = sums[i + j];
        epilogue.function(d, row, column + i, pack);
      }
      return;
    }
  }
  CUTE_UNROLL
  for (int i = 0; i < N; ++i)
    if (column + i < columns) epilogue(d, row, column + i, sums[i]);
}

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
