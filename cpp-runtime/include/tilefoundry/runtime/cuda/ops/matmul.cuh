/// \file matmul.cuh
/// `ops::matmul`: the one entry; the tier follows from element types, the block's size and the architecture.
#pragma once

#include <tilefoundry/runtime/cuda/dynamic_shared.cuh>
#include <tilefoundry/runtime/cuda/ops/launch_order.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_mma.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_simt.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_stream.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_tma.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_wgmma.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

template <class T>
inline constexpr bool is_fp8 = stdx::is_same_v<T, fp8e4m3> || stdx::is_same_v<T, fp8e5m2>;
template <class T>
inline constexpr bool is_16bit_float = stdx::is_same_v<T, f16> || stdx::is_same_v<T, bf16>;

/// The 16-bit type in which both operands are exact, or void. fp8 goes through f16, whose products accumulate in
/// true float; Hopper's own fp8 instructions keep fewer bits than that in their sums.
template <class A, class B>
struct stage_type {
  static constexpr bool equal = is_16bit_float<A> && stdx::is_same_v<A, B>;
  using type = stdx::conditional_t<
      equal || (is_16bit_float<A> && is_fp8<B>), A,
      stdx::conditional_t<is_fp8<A> && is_16bit_float<B>, B, stdx::conditional_t<is_fp8<A> && is_fp8<B>, f16, void>>>;
};

/// Tier for element types A, B in a block of `Threads`.
template <class A, class B, int Threads, class S = typename stage_type<A, B>::type>
__device__ constexpr auto select_tier() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr bool has_wgmma = true;
#else
  constexpr bool has_wgmma = false;
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr bool has_mma = true;
#else
  constexpr bool has_mma = false;
#endif
  constexpr int workers = workers_of(Threads);
  if constexpr (!stdx::is_void_v<S> && has_wgmma && Threads == 288 && stdx::is_same_v<A, S> && stdx::is_same_v<B, S>) {
    return TmaTier<S, Threads>{};
  } else if constexpr (!stdx::is_void_v<S> && has_wgmma && workers >= 128 && workers <= 512) {
    return WgmmaTier<S, Threads>{};
  } else if constexpr (!stdx::is_void_v<S> && has_mma && workers <= 512) {
    return MmaTier<S, Threads>{};
  } else {
    return SimtTier<A, B, Threads>{};
  }
}

template <class T>
using element_t = stdx::remove_cv_t<typename decltype(core::plain_view(stdx::declval<T const&>()))::value_type>;

template <class Caller>
__device__ constexpr int static_threads() {
  using Dim = decltype(program_dim<core::level_in<TopologyScope::thread, Caller>>());
  static_assert(cute::is_static<Dim>::value, "ops::matmul: the number of threads in a block must be static");
  return Dim::value;
}

/// Rows of the result where they are static, else 0.
template <class View>
__device__ constexpr int static_rows() {
  using Rows = decltype(cute::size<View::rank - 2>(stdx::declval<typename View::layout_type>()));
  if constexpr (cute::is_static<Rows>::value) {
    return Rows::value;
  } else {
    return 0;
  }
}

/// Columns of the result where they are static, else 0.
template <class View>
__device__ constexpr int static_columns() {
  using Columns = decltype(cute::size<View::rank - 1>(stdx::declval<typename View::layout_type>()));
  if constexpr (cute::is_static<Columns>::value) {
    return Columns::value;
  } else {
    return 0;
  }
}

template <class T>
using view_t = decltype(core::plain_view(stdx::declval<T const&>()));

/// Few rows, and columns of b that are contiguous along k: then b is read once, at the rate of memory.
template <class A, class B, class D>
__device__ constexpr bool streams() {
  constexpr int rows = static_rows<view_t<D>>();
  using OB = decltype(operand_of<1, 0>(stdx::declval<view_t<B>>(), 0));
  return rows >= 1 && rows <= 8 && OB::k_contiguous;
}

/// The tier of a call: by extents where they are static, else by element types and block.
template <class A, class B, class D, int Threads>
__device__ constexpr auto tier_for() {
  if constexpr (streams<A, B, D>()) {
    constexpr int rows = static_rows<view_t<D>>(), columns = static_columns<view_t<D>>();
    // With many columns a warp takes several, which share what it reads of a; few columns need all the warps there
    // are to keep memory busy.
    constexpr int outputs = columns >= 8192 ? 4 : columns > 0 ? 1 : 2, unroll = outputs == 4 ? 2 : 4;
    constexpr int split = outputs == 1 ? warps_per_column(columns, Threads / 32) : 1;
    return StreamTier<element_t<A>, element_t<B>, Threads, rows, outputs, unroll, split>{};
  } else {
    return select_tier<element_t<A>, element_t<B>, Threads>();
  }
}
template <class A, class B, class D, int Threads>
using tier_t = decltype(tier_for<A, B, D, Threads>());

/// Whether a tier waits for earlier launches by itself, when it has got ready.
template <class Tier>
inline constexpr bool waits_itself = false;
template <class S, int Threads>
inline constexpr bool waits_itself<TmaTier<S, Threads>> = true;

}  // namespace matmul_impl

/// `matmul_workspace_bytes` for element types; a constant, the same in every thread.
template <class A, class B, int Threads>
__device__ constexpr int matmul_bytes() {
  return decltype(matmul_impl::select_tier<A, B, Threads>())::bytes;
}

/// Shared memory that `matmul` with operands of types A and B needs in a block of `Threads`, aligned to 1024 bytes.
/// At most 48 KiB, which static shared memory holds, except for 16-bit operands in blocks of 288 threads on sm_90a:
/// eight warps that multiply and one that fetches take more than 190 KiB of dynamic shared memory.
template <class A, class B, int Threads>
__device__ constexpr int matmul_workspace_bytes() {
  return matmul_bytes<matmul_impl::element_t<A>, matmul_impl::element_t<B>, Threads>();
}

/// d(m, n) = epilogue of sum over k of a(m, k) b(k, n), with a leading batch mode or without.
///
/// All threads of all blocks call; the blocks share the output tiles out among themselves, whatever their number.
/// `workspace`: `matmul_workspace_bytes<A, B, Threads>()` bytes of shared memory at a multiple of 1024, used between
/// block barriers. Operands in gmem, any strides; a static stride of 1 along k or along the rows, 16-byte aligned,
/// takes the fast loads. Sums are float (double for double, 64-bit for integers), in a fixed order. The epilogue is
/// called once for each element of d, `epilogue(d, m, n, sum)`, by the thread that holds its sum; the default
/// rounds it into d. Before it reads or writes it waits for earlier launches that this one overlaps. Results are
/// visible to other blocks after a grid barrier or the end of the kernel.
template <class A, class B, class D, class Epilogue = store_result>
__device__ void matmul(A const& a, B const& b, D& d, void* workspace, Epilogue const& epilogue = {}) {
  constexpr int threads = matmul_impl::static_threads<D>();
  using Tier = matmul_impl::tier_t<A, B, D, threads>;
  if constexpr (!matmul_impl::waits_itself<Tier>) await_earlier_launches();
  Tier::run(::tilefoundry::detail::plain_view(a), ::tilefoundry::detail::plain_view(b),
            ::tilefoundry::detail::plain_view(d), workspace, epilogue);
}

}  // namespace ops
}  // namespace tilefoundry
