/// \file wgmma_registers.cuh
/// Atoms of `wgmma` (sm_90a) whose left operand lies in registers.
#pragma once

#include <tilefoundry/runtime/cuda/ops/wgmma.cuh>

#define TILEFOUNDRY_SUMS_8(d, i)                                                                          \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define TILEFOUNDRY_SUMS_32(d, i)                                                                   \
  TILEFOUNDRY_SUMS_8(d, i), TILEFOUNDRY_SUMS_8(d, i + 8), TILEFOUNDRY_SUMS_8(d, i + 16),            \
      TILEFOUNDRY_SUMS_8(d, i + 24)
#define TILEFOUNDRY_WGMMA_64(types) \
  asm volatile("{ .reg .pred add; setp.eq.b32 add, 0, 0; wgmma.mma_async.sync.aligned." types " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31" \
               "}, {%32, %33, %34, %35}, %36, add, 1, 1, %37; }" \
               : TILEFOUNDRY_SUMS_32(d, 0) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(tb))
#define TILEFOUNDRY_WGMMA_128(types) \
  asm volatile("{ .reg .pred add; setp.eq.b32 add, 0, 0; wgmma.mma_async.sync.aligned." types " {" \
               "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
               "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
               "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
               "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63" \
               "}, {%64, %65, %66, %67}, %68, add, 1, 1, %69; }" \
               : TILEFOUNDRY_SUMS_32(d, 0), TILEFOUNDRY_SUMS_32(d, 32) \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(tb))

namespace tilefoundry {
namespace ops {
namespace atom {

/// Have a thread's fragments written before this point, so that the fence which follows orders them before `wgmma` reads
/// them; all threads of the warpgroup.
template <int N>
__device__ void wgmma_fence_fragments(uint32_t (&a)[N][4]) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  CUTE_UNROLL
  for (int i = 0; i < N; ++i)
    asm volatile("" : "+r"(a[i][0]), "+r"(a[i][1]), "+r"(a[i][2]), "+r"(a[i][3])::"memory");
#endif
}

/// D(64xN) += A(64x16) B(16xN): all 128 threads of a warpgroup. Each warp holds 16 rows of A as `mma_sync` numbers its
/// fragments; B lies in shared memory as for `wgmma`, and so do the sums. Between `wgmma_fence` and `wgmma_wait` neither
/// sums nor fragments may be touched.
template <class In, int N, Major B = Major::k>
struct wgmma_from_registers {
  static_assert(N == 64 || N == 128, "ops::atom::wgmma_from_registers: N must be 64 or 128");
  static_assert(stdx::is_same_v<In, f16> || stdx::is_same_v<In, bf16>,
                "ops::atom::wgmma_from_registers: inputs are f16 or bf16");
  /// Bytes by which a descriptor moves along k for one instruction.
  static constexpr int b_step = B == Major::k ? 32 : 2048;

  static __device__ void fma(float (&d)[N / 2], uint32_t const (&a)[4], uint64_t b) {
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
    constexpr int tb = B == Major::outer;
    if constexpr (N == 64) {
      if constexpr (stdx::is_same_v<In, f16>) {
        TILEFOUNDRY_WGMMA_64("m64n64k16.f32.f16.f16");
      } else {
        TILEFOUNDRY_WGMMA_64("m64n64k16.f32.bf16.bf16");
      }
    } else {
      if constexpr (stdx::is_same_v<In, f16>) {
        TILEFOUNDRY_WGMMA_128("m64n128k16.f32.f16.f16");
      } else {
        TILEFOUNDRY_WGMMA_128("m64n128k16.f32.bf16.bf16");
      }
    }
#else
    static_assert(wgmma_needs_sm90a<In>, "ops::atom::wgmma: compile for sm_90a; other targets have no wgmma");
#endif
  }
};

}  // namespace atom
}  // namespace ops
}  // namespace tilefoundry

#undef TILEFOUNDRY_WGMMA_64
#undef TILEFOUNDRY_WGMMA_128
#undef TILEFOUNDRY_SUMS_8
#undef TILEFOUNDRY_SUMS_32
