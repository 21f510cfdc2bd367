/// \file mma_atoms.cuh
/// Atoms of `mma.sync`: one warp, fragments in registers, layouts as the PTX manual numbers them.
#pragma once

#include <tilefoundry/runtime/cuda/dtype.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {
namespace ops {
namespace atom {

/// D(16x8) += A(16xK) B(Kx8), K = 16 for f16 and bf16 (f32 sums, sm_80), 32 for fp8 (f32 sums, sm_89) and 8-bit
/// integers (i32 sums, sm_80). A row-major, B column-major; per lane: 4 sums, 4 words of A, 2 words of B.
template <class In>
struct mma_sync {
  static constexpr bool is_16bit = stdx::is_same_v<In, f16> || stdx::is_same_v<In, bf16>;
  static constexpr bool is_fp8 = stdx::is_same_v<In, fp8e4m3> || stdx::is_same_v<In, fp8e5m2>;
  static constexpr bool is_int8 = stdx::is_same_v<In, i8> || stdx::is_same_v<In, u8>;
  static_assert(is_16bit || is_fp8 || is_int8, "ops::atom::mma_sync: no instruction for this element type");

  using input_type = In;
  using sum_type = stdx::conditional_t<is_int8, i32, float>;
  static constexpr int m = 16, n = 8, k = is_16bit ? 16 : 32;
  static constexpr int sums = 4, a_words = 4, b_words = 2;

  static __device__ void fma(sum_type (&d)[4], uint32_t const (&a)[4], uint32_t const (&b)[2]) {
#define TILEFOUNDRY_MMA(shape_and_types, constraint)                                                     \
  asm volatile("mma.sync.aligned." shape_and_types " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
               : "+" constraint(d[0]), "+" constraint(d[1]), "+" constraint(d[2]), "+" constraint(d[3])  \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
    if constexpr (stdx::is_same_v<In, f16>) {
      TILEFOUNDRY_MMA("m16n8k16.row.col.f32.f16.f16.f32", "f");
    } else if constexpr (stdx::is_same_v<In, bf16>) {
      TILEFOUNDRY_MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
    } else if constexpr (stdx::is_same_v<In, fp8e4m3>) {
      TILEFOUNDRY_MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f");
    } else if constexpr (stdx::is_same_v<In, fp8e5m2>) {
      TILEFOUNDRY_MMA("m16n8k32.row.col.f32.e5m2.e5m2.f32", "f");
    } else if constexpr (stdx::is_same_v<In, i8>) {
      TILEFOUNDRY_MMA("m16n8k32.row.col.s32.s8.s8.s32", "r");
    } else {
      TILEFOUNDRY_MMA("m16n8k32.row.col.s32.u8.u8.s32", "r");
    }
#undef TILEFOUNDRY_MMA
  }

  /// Row and column of sum `i` of a lane.
  static __device__ constexpr int sum_row(int lane, int i) { return lane / 4 + i / 2 * 8; }
  static __device__ constexpr int sum_column(int lane, int i) { return lane % 4 * 2 + i % 2; }
};

/// D(8x8) += A(8x4) B(4x8) in double precision (sm_80); per lane: 2 sums, 1 value of A, 1 of B.
struct mma_sync_f64 {
  using input_type = double;
  using sum_type = double;
  static constexpr int m = 8, n = 8, k = 4;
  static constexpr int sums = 2, a_words = 1, b_words = 1;

  static __device__ void fma(double (&d)[2], double const (&a)[1], double const (&b)[1]) {
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(d[0]), "+d"(d[1])
                 : "d"(a[0]), "d"(b[0]));
  }
};

/// Four 8x8 matrices of 16-bit elements from shared memory into fragments; lane i gives the address of row i % 8
/// of matrix i / 8. `Transposed` hands out columns.
template <bool Transposed>
__device__ void ldmatrix_x4(uint32_t (&out)[4], void const* row) {
  const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (Transposed) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
  } else {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
                 : "r"(at)
                 : "memory");
  }
}

}  // namespace atom
}  // namespace ops
}  // namespace tilefoundry
