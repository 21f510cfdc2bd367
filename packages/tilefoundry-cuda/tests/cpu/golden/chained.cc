// chained.chained, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_matmul_relu(const f32* const x, const f32* const w0, f32* const v1, const index_t N) {
  // v0 = tf.matmul(x, w0): f32[N, 32]
  // v1 = tf.relu(v0): f32[N, 32]
  const auto lhs_ = make_view<2>(x, {N, 32}, {32, 1});
  const auto rhs_ = make_view<2>(w0, {32, 32}, {32, 1});
  const auto dst_ = make_view<2>(v1, {N, 32}, {32, 1});
  ops::contract<false>(lhs_, rhs_, dst_, [=](f32* v0_block, index_t pitch, index_t batch, index_t row_begin,
      index_t row_end, index_t column_begin, index_t column_end) {
    for (index_t i = row_begin; i < row_end; ++i) {
#pragma omp simd
      for (index_t j = column_begin; j < column_end; ++j) {
        const f32 v0 = v0_block[i * pitch - pitch * row_begin - column_begin + j];
        const f32 v1_2 = ops::relu_op{}(v0);
        v1[i * 32 + j] = v1_2;
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, INT64_C(32)};
constexpr std::int64_t dims_1_[] = {INT64_C(32), INT64_C(32)};
constexpr std::int64_t dims_2_[] = {INT64_C(32), INT64_C(32)};
constexpr std::int64_t dims_3_[] = {INT64_C(32), INT64_C(32)};
constexpr std::int64_t dims_4_[] = {-1, INT64_C(32)};
constexpr host::Param params_[] = {
  {"x", "f32[N, 32]", kDLFloat, 32, 2, dims_0_},
  {"w0", "f32[32, 32]", kDLFloat, 32, 2, dims_1_},
  {"w1", "f32[32, 32]", kDLFloat, 32, 2, dims_2_},
  {"w2", "f32[32, 32]", kDLFloat, 32, 2, dims_3_},
  {"output", "f32[N, 32]", kDLFloat, 32, 2, dims_4_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"chained", params_, 5, 1, variables_, 1, nullptr, 0, kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[5];
  DLTensor const* tensors_[5];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const f32* const x = static_cast<const f32*>(data_[0]);
  const f32* const w0 = static_cast<const f32*>(data_[1]);
  const f32* const w1 = static_cast<const f32*>(data_[2]);
  const f32* const w2 = static_cast<const f32*>(data_[3]);
  f32* const output = static_cast<f32*>(data_[4]);
  const index_t slot0_ = 0;
  const index_t slot1_ = slot0_ + host::padded(N * 128);
  const host::Slab slab_(slot1_ + host::padded(N * 128), DLDevice{kDLCPU, 0});
  f32* const v1 = slab_.at<f32>(slot0_);
  f32* const v3 = slab_.at<f32>(slot1_);
  kernels::kernel_k0_matmul_relu(x, w0, v1, N);
  kernels::kernel_k0_matmul_relu(v1, w1, v3, N);
  kernels::kernel_k0_matmul_relu(v3, w2, output, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(chained, tilefoundry::entry_function);
