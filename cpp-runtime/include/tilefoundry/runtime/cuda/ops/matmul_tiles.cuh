/// \file matmul_tiles.cuh
/// What the matmul tiers share: operands, the walk over output tiles, and staging tiles in shared memory.
#pragma once

#include <tilefoundry/runtime/cuda/local.cuh>
#include <tilefoundry/runtime/cuda/ops/copy_async.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_epilogue.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

namespace core = ::tilefoundry::detail;

/// Threads of a block that multiply: the largest power of two within it. The others help to stage tiles.
__device__ constexpr int workers_of(int threads) {
  int n = 32;
  while (n * 2 <= threads) n *= 2;
  return n;
}

/// One operand seen as rows (m or n) by k; strides keep their static values.
template <class T, class RowStride, class KStride>
struct Operand {
  T const* data;
  RowStride row_stride;
  KStride k_stride;
  int rows, k;

  using value_type = stdx::remove_cv_t<T>;
  static constexpr bool in_memory = true;
  static constexpr bool k_contiguous = cute::is_constant<1, KStride>::value;
  static constexpr bool row_contiguous = cute::is_constant<1, RowStride>::value && !k_contiguous;

  __device__ T const* at(int row, int kk) const {
    return data + static_cast<long long>(row) * row_stride + static_cast<long long>(kk) * k_stride;
  }
  __device__ value_type load(int row, int kk) const { return value_type(*at(row, kk)); }
  /// Whether 16-byte pieces along the contiguous direction start at multiples of 16 bytes.
  __device__ bool allows_pieces() const {
    constexpr int n = 16 / sizeof(T);
    if constexpr (k_contiguous) {
      return core::is_aligned<16>(data) && static_cast<long long>(row_stride) % n == 0;
    } else if constexpr (row_contiguous) {
      return core::is_aligned<16>(data) && static_cast<long long>(k_stride) % n == 0;
    } else {
      return false;
    }
  }
};

/// Modes (row, k) of matrix `batch` of a view of rank 2 (row, k) or 3 (batch, row, k).
template <int Row, int K, class View>
__device__ auto operand_of(View const& view, int batch) {
  constexpr int skip = View::rank - 2;
  static_assert(View::rank == 2 || View::rank == 3, "ops::matmul: operands have two modes, or three with a batch first");
  auto const data = core::raw(view) + [&]() -> long long {
    if constexpr (skip == 1) {
      return static_cast<long long>(cute::layout<0>(view.layout())(batch));
    } else {
      return 0;
    }
  }();
  auto const rs = cute::stride<Row + skip>(view.layout());
  auto const ks = cute::stride<K + skip>(view.layout());
  using T = stdx::remove_pointer_t<stdx::remove_cvref_t<decltype(data)>>;
  return Operand<stdx::remove_cv_t<T>, stdx::remove_cvref_t<decltype(rs)>, stdx::remove_cvref_t<decltype(ks)>>{
      data, rs, ks, static_cast<int>(cute::size<Row + skip>(view.layout())),
      static_cast<int>(cute::size<K + skip>(view.layout()))};
}

/// Matrix `batch` of the result.
template <class View>
__device__ auto result_of(View const& view, int batch) {
  if constexpr (View::rank == 3) {
    return cute::make_tensor(view.data() + static_cast<long long>(cute::layout<0>(view.layout())(batch)),
                             cute::take<1, 3>(view.layout()));
  } else {
    return view;
  }
}

/// Call `body(batch, first_row, first_column)` on the output tiles of the calling block; blocks share them out.
template <int BM, int BN, class View, class Body>
__device__ void for_each_tile(View const& d, Body const& body) {
  constexpr int skip = View::rank - 2;
  const long long m = cute::size<skip>(d.layout()), n = cute::size<skip + 1>(d.layout());
  const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
  const long long rows = (m + BM - 1) / BM, columns = (n + BN - 1) / BN;
  for (long long tile = program_id<core::level_in<TopologyScope::cta, View>>(); tile < rows * columns * batches;
       tile += program_dim<core::level_in<TopologyScope::cta, View>>()) {
    const long long in_matrix = tile % (rows * columns);
    body(static_cast<int>(tile / (rows * columns)), static_cast<int>(in_matrix % rows) * BM,
         static_cast<int>(in_matrix / rows) * BN);
  }
}

/// 16 bytes to shared memory of which only the first `bytes` are read; the rest become zero.
__device__ inline void cp_async_piece(void* smem, void const* gmem, int bytes) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(gmem), "r"(bytes) : "memory");
#endif
}

/// Whether an operand is computed in packs of at least eight elements that follow k or, else, the rows.
template <bool AlongK, class Op, class = void>
inline constexpr bool computes_pieces = false;
template <bool AlongK, class Op>
inline constexpr bool computes_pieces<AlongK, Op, stdx::void_t<decltype(Op::width)>> =
    Op::width >= 8 && Op::k_contiguous == AlongK;

/// Stage `Outer` rows by `K` of `op` from (row0, k0) as pieces of 8 elements of the 16-bit type S; outside the
/// operand it is zero. Pieces follow k (`KMajor`) or the rows; `address(line, piece)` says where they go.
/// Asynchronous where `pieces` allows and no conversion is needed: commit and wait as for `copy_async`.
template <bool KMajor, int Outer, int K, int Threads, class S, class Op, class Address>
__device__ void stage_tile(Op const& op, int row0, int k0, bool pieces, Address const& address) {
  using T = typename Op::value_type;
  constexpr int per_line = (KMajor ? K : Outer) / 8, lines = KMajor ? Outer : K;
  const int thread = program_id<TopologyScope::thread>();
  CUTE_UNROLL
  for (int c = thread; c < lines * per_line; c += Threads) {
    const int line = c / per_line, piece = c % per_line;
    const int row = row0 + (KMajor ? line : piece * 8), k = k0 + (KMajor ? piece * 8 : line);
    int valid = KMajor ? (row < op.rows ? op.k - k : 0) : (k < op.k ? op.rows - row : 0);
    valid = valid < 0 ? 0 : valid > 8 ? 8 : valid;
    S* const to = address(line, piece);
    if constexpr (stdx::is_same_v<S, T> && Op::in_memory) {
      if (pieces) {
        cp_async_piece(to, valid > 0 ? op.at(row, k) : op.data, valid * static_cast<int>(sizeof(S)));
        continue;
      }
    }
    core::Pack<S, 8> pack;
    if constexpr (computes_pieces<KMajor, Op>) {
      if (pieces && valid == 8) {
        auto const element = op.template elements<8>(row, k);
        CUTE_UNROLL
        for (int i = 0; i < 8; ++i) pack.value[i] = convert<S>(element(i));
        *reinterpret_cast<core::Pack<S, 8>*>(to) = pack;
        continue;
      }
    }
    CUTE_UNROLL
    for (int i = 0; i < 8; ++i)
      pack.value[i] = i < valid ? convert<S>(op.load(row + (KMajor ? 0 : i), k + (KMajor ? i : 0))) : convert<S>(0.0f);
    *reinterpret_cast<core::Pack<S, 8>*>(to) = pack;
  }
}

}  // namespace matmul_impl

}  // namespace ops
}  // namespace tilefoundry
