// matmul_gelu.matmul_gelu, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_matmul_gelu_add(const f32* const x, const f32* const w, const f32* const b, f32* const output,
    const index_t M, const index_t N) {
  // v0 = tf.matmul(x, w): f32[N, M]
  // v1 = tf.add(v0, b): f32[N, M]
  // v2 = tf.gelu(v1, approximate=tanh): f32[N, M]
  const auto lhs_ = make_view<2>(x, {N, 64}, {64, 1});
  const auto rhs_ = make_view<2>(w, {64, M}, {M, 1});
  const auto dst_ = make_view<2>(output, {N, M}, {M, 1});
  ops::contract<false>(lhs_, rhs_, dst_, [=](f32* v0_block, index_t pitch, index_t batch, index_t row_begin,
      index_t row_end, index_t column_begin, index_t column_end) {
    for (index_t i = row_begin; i < row_end; ++i) {
#pragma omp simd
      for (index_t j = column_begin; j < column_end; ++j) {
        const f32 v0 = v0_block[i * pitch - pitch * row_begin - column_begin + j];
        const f32 b_at = b[j];
        const f32 v1 = v0 + b_at;
        const f32 v2 = ops::gelu_tanh_op{}(v1);
        output[M * i + j] = v2;
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, INT64_C(64)};
constexpr std::int64_t dims_1_[] = {INT64_C(64), -2};
constexpr std::int64_t dims_2_[] = {-2};
constexpr std::int64_t dims_3_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "f32[N, 64]", kDLFloat, 32, 2, dims_0_},
  {"w", "f32[64, M]", kDLFloat, 32, 2, dims_1_},
  {"b", "f32[M]", kDLFloat, 32, 1, dims_2_},
  {"output", "f32[N, M]", kDLFloat, 32, 2, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"matmul_gelu", params_, 4, 1, variables_, 2, nullptr, 0, kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[4];
  DLTensor const* tensors_[4];
  std::int64_t extents_[2];
  int bound_by_[2];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  const index_t M = extents_[1];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const f32* const x = static_cast<const f32*>(data_[0]);
  const f32* const w = static_cast<const f32*>(data_[1]);
  const f32* const b = static_cast<const f32*>(data_[2]);
  f32* const output = static_cast<f32*>(data_[3]);
  kernels::kernel_k0_matmul_gelu_add(x, w, b, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(matmul_gelu, tilefoundry::entry_function);
