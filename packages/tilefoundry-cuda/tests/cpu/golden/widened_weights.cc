// widened_weights.widened_weights, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_matmul_silu_mul(const i8* const w, const f32* const s, const f32* const g, const f32* const u,
    const f32* const b, f32* const output, const index_t M, const index_t N) {
  // v0 = tf.cast(w, dtype=f32): f32[64, M]
  // v1 = tf.mul(v0, s): f32[64, M]
  // v2 = tf.silu(g): f32[N, 64]
  // v3 = tf.mul(v2, u): f32[N, 64]
  // v4 = tf.matmul(v3, v1): f32[N, M]
  // v5 = tf.add(v4, b): f32[N, M]
  const auto lhs_ = ops::computed<f32, true, false>([=](f32* v3_panel, index_t pitch, index_t batch,
      index_t begin, index_t end, index_t inner_begin, index_t inner_end) TILEFOUNDRY_CHUNK {
    for (index_t i = begin; i < end; ++i) {
#pragma omp simd
      for (index_t j = inner_begin; j < inner_end; ++j) {
        const f32 g_at = g[i * 64 + j];
        const f32 v2 = ops::silu_op{}(g_at);
        const f32 u_at = u[i * 64 + j];
        const f32 v3 = v2 * u_at;
        v3_panel[-begin * pitch + i * pitch - inner_begin + j] = v3;
      }
    }
  }, 16);
  const auto rhs_ = ops::computed<f32, true, false>([=](f32* v1_panel, index_t pitch_2, index_t batch_2,
      index_t begin_2, index_t end_2, index_t inner_begin_2, index_t inner_end_2) TILEFOUNDRY_CHUNK {
    for (index_t i_2 = begin_2; i_2 < end_2; ++i_2) {
#pragma omp simd
      for (index_t j_2 = inner_begin_2; j_2 < inner_end_2; ++j_2) {
        const i8 w_at = w[M * i_2 + j_2];
        const f32 v0 = convert<f32>(w_at);
        const f32 s_at = s[j_2];
        const f32 v1 = v0 * s_at;
        v1_panel[-begin_2 * pitch_2 + i_2 * pitch_2 - inner_begin_2 + j_2] = v1;
      }
    }
  }, 2);
  const auto dst_ = make_view<2>(output, {N, M}, {M, 1});
  ops::contract_computed<false>(lhs_, rhs_, 64, dst_, [=](f32* v4_block, index_t pitch_3, index_t batch_3,
      index_t row_begin, index_t row_end, index_t column_begin, index_t column_end) {
    for (index_t i_3 = row_begin; i_3 < row_end; ++i_3) {
#pragma omp simd
      for (index_t j_3 = column_begin; j_3 < column_end; ++j_3) {
        const f32 v4 = v4_block[i_3 * pitch_3 - pitch_3 * row_begin - column_begin + j_3];
        const f32 b_at = b[j_3];
        const f32 v5 = v4 + b_at;
        output[M * i_3 + j_3] = v5;
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {INT64_C(64), -1};
constexpr std::int64_t dims_1_[] = {-1};
constexpr std::int64_t dims_2_[] = {-2, INT64_C(64)};
constexpr std::int64_t dims_3_[] = {-2, INT64_C(64)};
constexpr std::int64_t dims_4_[] = {-1};
constexpr std::int64_t dims_5_[] = {-2, -1};
constexpr host::Param params_[] = {
  {"w", "i8[64, M]", kDLInt, 8, 2, dims_0_},
  {"s", "f32[M]", kDLFloat, 32, 1, dims_1_},
  {"g", "f32[N, 64]", kDLFloat, 32, 2, dims_2_},
  {"u", "f32[N, 64]", kDLFloat, 32, 2, dims_3_},
  {"b", "f32[M]", kDLFloat, 32, 1, dims_4_},
  {"output", "f32[N, M]", kDLFloat, 32, 2, dims_5_},
};
constexpr host::Variable variables_[] = {
  {"M", 1, INT64_C(1000)},
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"widened_weights", params_, 6, 1, variables_, 2, nullptr, 0,
    kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[6];
  DLTensor const* tensors_[6];
  std::int64_t extents_[2];
  int bound_by_[2];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t M = extents_[0];
  const index_t N = extents_[1];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const i8* const w = static_cast<const i8*>(data_[0]);
  const f32* const s = static_cast<const f32*>(data_[1]);
  const f32* const g = static_cast<const f32*>(data_[2]);
  const f32* const u = static_cast<const f32*>(data_[3]);
  const f32* const b = static_cast<const f32*>(data_[4]);
  f32* const output = static_cast<f32*>(data_[5]);
  kernels::kernel_k0_matmul_silu_mul(w, s, g, u, b, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(widened_weights, tilefoundry::entry_function);
