// matmul_norm.matmul_norm, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_matmul_reduce_square(const f32* const x, const f32* const w, const f32* const r,
    f32* const output, const index_t N) {
  // v0 = tf.matmul(x, w): f32[N, 32]
  // v1 = tf.add(v0, r): f32[N, 32]
  // row_mean = tf.reduce(v1, axes=(1), keepdim=True, kind=mean): f32[N, 1]
  // centred = tf.sub(v1, row_mean): f32[N, 32]
  // squared = tf.square(centred): f32[N, 32]
  // variance = tf.reduce(squared, axes=(1), keepdim=True, kind=mean): f32[N, 1]
  // shifted = tf.add(variance, 1e-05): f32[N, 1]
  // scale = tf.rsqrt(shifted): f32[N, 1]
  // v2 = tf.mul(centred, scale): f32[N, 32]
  const auto lhs_ = make_view<2>(x, {N, 64}, {64, 1});
  const auto rhs_ = make_view<2>(w, {64, 32}, {32, 1});
  const auto dst_ = make_view<2>(output, {N, 32}, {32, 1});
  ops::contract<true>(lhs_, rhs_, dst_, [=](f32* v0_block, index_t pitch, index_t batch, index_t row_begin,
      index_t row_end, index_t column_begin, index_t column_end) {
    for (index_t i = row_begin; i < row_end; ++i) {
      f32 row_mean_total = 0.0f;
      row_mean_total += sum_in_lanes<32, f32>(column_begin, column_end, [&](index_t j) TILEFOUNDRY_CHUNK {
        const f32 v0 = v0_block[i * pitch - pitch * row_begin - column_begin + j];
        const f32 r_at = r[i * 32 + j];
        const f32 v1 = v0 + r_at;
        return v1;
      });
      const f32 row_mean = row_mean_total / convert<f32>(32);
      f32 variance_total = 0.0f;
      variance_total += sum_in_lanes<32, f32>(column_begin, column_end, [&](index_t j_2) TILEFOUNDRY_CHUNK {
        const f32 v0_2 = v0_block[i * pitch - pitch * row_begin - column_begin + j_2];
        const f32 r_at_2 = r[i * 32 + j_2];
        const f32 v1_2 = v0_2 + r_at_2;
        const f32 centred = v1_2 - row_mean;
        const f32 squared = ops::square_op{}(centred);
        return squared;
      });
      const f32 variance = variance_total / convert<f32>(32);
      const f32 shifted = variance + 1e-05f;
      const f32 scale = ops::rsqrt_op{}(shifted);
#pragma omp simd
      for (index_t j_3 = column_begin; j_3 < column_end; ++j_3) {
        const f32 v0_3 = v0_block[i * pitch - pitch * row_begin - column_begin + j_3];
        const f32 r_at_3 = r[i * 32 + j_3];
        const f32 v1_3 = v0_3 + r_at_3;
        const f32 centred_2 = v1_3 - row_mean;
        const f32 v2 = centred_2 * scale;
        output[i * 32 + j_3] = v2;
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, INT64_C(64)};
constexpr std::int64_t dims_1_[] = {INT64_C(64), INT64_C(32)};
constexpr std::int64_t dims_2_[] = {-1, INT64_C(32)};
constexpr std::int64_t dims_3_[] = {-1, INT64_C(32)};
constexpr host::Param params_[] = {
  {"x", "f32[N, 64]", kDLFloat, 32, 2, dims_0_},
  {"w", "f32[64, 32]", kDLFloat, 32, 2, dims_1_},
  {"r", "f32[N, 32]", kDLFloat, 32, 2, dims_2_},
  {"output", "f32[N, 32]", kDLFloat, 32, 2, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"matmul_norm", params_, 4, 1, variables_, 1, nullptr, 0, kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[4];
  DLTensor const* tensors_[4];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const f32* const x = static_cast<const f32*>(data_[0]);
  const f32* const w = static_cast<const f32*>(data_[1]);
  const f32* const r = static_cast<const f32*>(data_[2]);
  f32* const output = static_cast<f32*>(data_[3]);
  kernels::kernel_k0_matmul_reduce_square(x, w, r, output, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(matmul_norm, tilefoundry::entry_function);
