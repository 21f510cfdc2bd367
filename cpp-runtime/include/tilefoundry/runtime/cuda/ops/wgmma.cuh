/// \file wgmma.cuh
/// Atoms of `wgmma` (sm_90a): one warpgroup, both operands in shared memory, sums in registers.
#pragma once

#include <tilefoundry/runtime/cuda/dtype.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

// The instruction over 32, 64 or 128 sums; `majors` names the two transpose flags where the types have them.
#define TILEFOUNDRY_SUMS_8(d, i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define TILEFOUNDRY_SUMS_32(d, i)                                                                   \
  TILEFOUNDRY_SUMS_8(d, i), TILEFOUNDRY_SUMS_8(d, i + 8), TILEFOUNDRY_SUMS_8(d, i + 16),            \
      TILEFOUNDRY_SUMS_8(d, i + 24)
#define TILEFOUNDRY_WGMMA_64(types, majors) \
  asm volatile("{ .reg .pred add; setp.ne.b32 add, %36, 0; wgmma.mma_async.sync.aligned." types " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
               "}, %32, %33, add, 1, 1" majors "; }" \
               : TILEFOUNDRY_SUMS_32(d, 0) \
               : "l"(a), "l"(b), "n"(ta), "n"(tb), "n"(int(Add)))
#define TILEFOUNDRY_WGMMA_128(types, majors) \
  asm volatile("{ .reg .pred add; setp.ne.b32 add, %68, 0; wgmma.mma_async.sync.aligned." types " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
               "}, %64, %65, add, 1, 1" majors "; }" \
               : TILEFOUNDRY_SUMS_32(d, 0), TILEFOUNDRY_SUMS_32(d, 32) \
               : "l"(a), "l"(b), "n"(ta), "n"(tb), "n"(int(Add)))
#define TILEFOUNDRY_WGMMA_256(types, majors) \
  asm volatile("{ .reg .pred add; setp.ne.b32 add, %132, 0; wgmma.mma_async.sync.aligned." types " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, " \
               "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
               "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, " \
               "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
               "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127" \
               "}, %128, %129, add, 1, 1" majors "; }" \
               : TILEFOUNDRY_SUMS_32(d, 0), TILEFOUNDRY_SUMS_32(d, 32), TILEFOUNDRY_SUMS_32(d, 64), \
                 TILEFOUNDRY_SUMS_32(d, 96) \
               : "l"(a), "l"(b), "n"(ta), "n"(tb), "n"(int(Add)))

namespace tilefoundry {
namespace ops {
namespace atom {

/// How an operand lies in shared memory, in rows of 128 bytes whose 16-byte pieces are permuted by row (`swizzled`).
enum class Major {
  k,      ///< a row is one m (or n) and 128 bytes of k
  outer,  ///< a row is one k and 64 16-bit elements of m (or n); 16-bit types only
};

/// Byte offset of 16-byte piece `piece` (0..7) of row `row`; the tile starts at a multiple of 1024 bytes. Any thread.
__device__ constexpr int swizzled(int row, int piece) { return row * 128 + ((piece ^ (row & 7)) << 4); }

/// Matrix descriptor of a swizzled tile. `chunk_bytes`: distance of consecutive 64-element chunks of an
/// outer-major operand; a k-major one ignores it. Equal in all threads of the warpgroup.
__device__ inline uint64_t descriptor(void const* tile, int chunk_bytes) {
  const uint64_t start = __cvta_generic_to_shared(tile);
  const uint64_t leading = static_cast<uint64_t>(chunk_bytes) >> 4;
  constexpr uint64_t stride = 1024 >> 4;  // eight rows of 128 bytes
  constexpr uint64_t swizzle_128 = uint64_t{1} << 62;
  return ((start & 0x3ffff) >> 4) | (leading & 0x3fff) << 16 | stride << 32 | swizzle_128;
}

/// Descriptor moved by `bytes`, for the next step along k; any thread.
__device__ inline uint64_t advance(uint64_t descriptor, int bytes) { return descriptor + (bytes >> 4); }

/// Order the warpgroup's register and shared-memory writes before its next wgmma.
__device__ inline void wgmma_fence() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#endif
}
/// Make the calling thread's shared-memory writes visible to wgmma and bulk copies; before the barrier.
__device__ inline void proxy_fence() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}
/// Close the batch of wgmma issued so far; all threads of the warpgroup.
__device__ inline void wgmma_commit() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#endif
}
/// Wait until at most `Pending` batches are under way; all threads of the warpgroup.
template <int Pending>
__device__ void wgmma_wait() {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
#endif
}

/// Keep the compiler from moving uses of a thread's sums across this point; after the wait that makes them valid.
template <int N>
__device__ void wgmma_fence_sums(float (&sum)[N]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  CUTE_UNROLL
  for (int i = 0; i < N; ++i) asm volatile("" : "+f"(sum[i])::"memory");
#endif
}

template <class T>
inline constexpr bool wgmma_needs_sm90a = false;

/// D(64xN) += A(64xK) B(KxN): all 128 threads of a warpgroup. K is 16 for f16 and bf16, 32 for fp8; f32 sums, N / 2
/// per thread. Between `wgmma_fence` and `wgmma_wait` the sums must not be touched.
template <class In, int N, Major A = Major::k, Major B = Major::k>
struct wgmma {
  static_assert(N == 64 || N == 128 || N == 256, "ops::atom::wgmma: N must be 64, 128 or 256");
  static constexpr bool is_16bit = stdx::is_same_v<In, f16> || stdx::is_same_v<In, bf16>;
  static constexpr bool is_fp8 = stdx::is_same_v<In, fp8e4m3> || stdx::is_same_v<In, fp8e5m2>;
  static_assert(is_16bit || is_fp8, "ops::atom::wgmma: inputs are f16, bf16, fp8e4m3 or fp8e5m2");
  static_assert(is_16bit || (A == Major::k && B == Major::k), "ops::atom::wgmma: 8-bit operands must be k-major");

  using input_type = In;
  using sum_type = float;
  static constexpr int m = 64, n = N, k = is_16bit ? 16 : 32;
  static constexpr int sums = N / 2;
  /// Bytes by which a descriptor moves along k for one instruction.
  static constexpr int a_step = A == Major::k ? 32 : 2048;
  static constexpr int b_step = B == Major::k ? 32 : 2048;

  /// Without `Add` the sums start anew: what they held does not count.
  template <bool Add = true>
  static __device__ void fma(float (&d)[N / 2], uint64_t a, uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int ta = A == Major::outer, tb = B == Major::outer;
    if constexpr (N == 64) {
      if constexpr (stdx::is_same_v<In, f16>) {
        TILEFOUNDRY_WGMMA_64("m64n64k16.f32.f16.f16", ", %34, %35");
      } else if constexpr (stdx::is_same_v<In, bf16>) {
        TILEFOUNDRY_WGMMA_64("m64n64k16.f32.bf16.bf16", ", %34, %35");
      } else if constexpr (stdx::is_same_v<In, fp8e4m3>) {
        TILEFOUNDRY_WGMMA_64("m64n64k32.f32.e4m3.e4m3", "");
      } else {
        TILEFOUNDRY_WGMMA_64("m64n64k32.f32.e5m2.e5m2", "");
      }
    } else if constexpr (N == 128) {
      if constexpr (stdx::is_same_v<In, f16>) {
        TILEFOUNDRY_WGMMA_128("m64n128k16.f32.f16.f16", ", %66, %67");
      } else if constexpr (stdx::is_same_v<In, bf16>) {
        TILEFOUNDRY_WGMMA_128("m64n128k16.f32.bf16.bf16", ", %66, %67");
      } else if constexpr (stdx::is_same_v<In, fp8e4m3>) {
        TILEFOUNDRY_WGMMA_128("m64n128k32.f32.e4m3.e4m3", "");
      } else {
        TILEFOUNDRY_WGMMA_128("m64n128k32.f32.e5m2.e5m2", "");
      }
    } else {
      if constexpr (stdx::is_same_v<In, f16>) {
        TILEFOUNDRY_WGMMA_256("m64n256k16.f32.f16.f16", ", %130, %131");
      } else if constexpr (stdx::is_same_v<In, bf16>) {
        TILEFOUNDRY_WGMMA_256("m64n256k16.f32.bf16.bf16", ", %130, %131");
      } else if constexpr (stdx::is_same_v<In, fp8e4m3>) {
        TILEFOUNDRY_WGMMA_256("m64n256k32.f32.e4m3.e4m3", "");
      } else {
        TILEFOUNDRY_WGMMA_256("m64n256k32.f32.e5m2.e5m2", "");
      }
    }
#else
    static_assert(wgmma_needs_sm90a<In>, "ops::atom::wgmma: compile for sm_90a; other targets have no wgmma");
#endif
  }

  /// Row and column of sum `i` of a thread of the warpgroup.
  static __device__ constexpr int sum_row(int thread, int i) { return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8; }
  static __device__ constexpr int sum_column(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }
};

}  // namespace atom
}  // namespace ops
}  // namespace tilefoundry

#undef TILEFOUNDRY_WGMMA_64
#undef TILEFOUNDRY_WGMMA_128
#undef TILEFOUNDRY_WGMMA_256
#undef TILEFOUNDRY_SUMS_8
#undef TILEFOUNDRY_SUMS_32
