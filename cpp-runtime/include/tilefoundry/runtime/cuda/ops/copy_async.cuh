/// \file copy_async.cuh
/// `ops::copy_async`: non-blocking gmem to smem staging, with commit and wait.
#pragma once

#include <tilefoundry/runtime/cuda/local.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {
namespace ops {
namespace copy_async_impl {

namespace core = ::tilefoundry::detail;

/// One asynchronous copy of 4, 8 or 16 bytes; 16-byte copies bypass L1. Both addresses are multiples of `Bytes`.
template <int Bytes>
__device__ void cp_async(void const* gmem, void* smem) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(smem));
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(gmem) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(gmem), "n"(Bytes) : "memory");
  }
#else
  *static_cast<core::Pack<unsigned, Bytes / 4>*>(smem) = *static_cast<core::Pack<unsigned, Bytes / 4> const*>(gmem);
#endif
}

/// Elements from number `i` on by asynchronous copies of `N`; false, and nothing done, where an address forbids it.
template <int N, class Src, class Dst>
__device__ bool try_packs(Src const& src, Dst const& dst) {
  using D = typename Dst::value_type;
  constexpr int bytes = N * sizeof(D);
  constexpr int size = decltype(cute::size(dst.layout()))::value;
  if constexpr (N >= 1 && (bytes == 4 || bytes == 8 || bytes == 16) && size % N == 0 &&
                core::runs_stay_aligned<N, typename Src::layout_type>() &&
                core::runs_stay_aligned<N, typename Dst::layout_type>()) {
    if (core::is_aligned<bytes>(core::raw(src)) && core::is_aligned<bytes>(core::raw(dst))) {
      CUTE_UNROLL
      for (int i = 0; i < size; i += N)
        cp_async<bytes>(core::raw(src) + src.layout()(i), const_cast<D*>(core::raw(dst)) + dst.layout()(i));
      return true;
    }
  }
  if constexpr (N > 1) {
    return try_packs<N / 2>(src, dst);
  } else {
    return false;
  }
}

}  // namespace copy_async_impl

/// Copy the calling thread's `src` (gmem) to its `dst` (smem) without waiting. dst is valid in that thread after
/// `cp_async_commit` and `cp_async_wait`, in others after a barrier behind the wait. No workspace.
///
/// Widths: the widest of 16, 8 and 4 bytes that the static layouts and the run-time addresses of both sides allow.
/// Anything else (single bytes and halves, dynamic layouts, a register or gmem destination, chips before sm_80)
/// is copied before the call returns, which the same commit and wait order just as well.
template <class TSrc, class TDst>
__device__ void copy_async(TSrc const& src, TDst& dst) {
  namespace core = ::tilefoundry::detail;
  auto const s = core::plain_view(src);
  auto const d = core::plain_view(dst);
  using Src = stdx::remove_cv_t<decltype(s)>;
  using Dst = stdx::remove_cv_t<decltype(d)>;
  using S = stdx::remove_cv_t<typename Src::value_type>;
  using D = typename Dst::value_type;
  static_assert(stdx::is_same_v<S, D>, "ops::copy_async: source and destination hold different element types");
  using LS = typename Src::layout_type;
  using LD = typename Dst::layout_type;
  if constexpr (cute::is_gmem<Src>::value && cute::is_smem<Dst>::value && cute::is_static<LS>::value &&
                cute::is_static<LD>::value) {
    static_assert(decltype(cute::size(LS{}))::value == decltype(cute::size(LD{}))::value,
                  "ops::copy_async: source and destination hold different numbers of elements");
    constexpr bool reorder = core::modes_correspond<LS, LD>();
    auto from = cute::make_tensor(s.data(), core::enumerate_like<reorder, LD>(s.layout()));
    auto to = cute::make_tensor(d.data(), core::enumerate_like<reorder, LD>(d.layout()));
    // Where one side has no run, single elements of 4, 8 or 16 bytes may still go asynchronously.
    constexpr bool runs = core::packed_run<decltype(from)>() > 0 && core::packed_run<decltype(to)>() > 0;
    constexpr int n = runs ? core::common_pack<decltype(from), decltype(to)>(decltype(cute::size(LD{}))::value) : 1;
    if (copy_async_impl::try_packs<n>(from, to)) return;
  }
  auto const size = cute::size(d);
  for (decltype(size + 0) i = 0; i < size; ++i) const_cast<D*>(core::raw(d))[d.layout()(i)] = core::raw(s)[s.layout()(i)];
}

/// Close the calling thread's current batch of asynchronous copies.
__device__ inline void cp_async_commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

/// Wait until at most `Pending` of the calling thread's latest batches are still under way.
template <int Pending = 0>
__device__ void cp_async_wait() {
  static_assert(Pending >= 0, "ops::cp_async_wait: a count of batches cannot be negative");
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
#endif
}

}  // namespace ops
}  // namespace tilefoundry
