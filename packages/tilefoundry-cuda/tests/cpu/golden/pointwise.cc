// pointwise.pointwise, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_exp_mul_add(const f32* const x, const f32* const y, f32* const output, const index_t M,
    const index_t N) {
  // v0 = tf.add(x, y): f32[N, M]
  // v1 = tf.exp(v0): f32[N, M]
  // v2 = tf.mul(v1, 0.5): f32[N, M]
  parallel_for(N * ((M + 4095) / 4096), 40960, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
    for (index_t item = begin; item < end; ++item) {
      const index_t i = item % (((M + 4095) / 4096));
      const index_t i_2 = item / (((M + 4095) / 4096));
      const index_t stop = (i * 4096 + 4096) < M ? (i * 4096 + 4096) : M;
#pragma omp simd
      for (index_t j = i * 4096; j < stop; ++j) {
        const f32 x_at = x[M * i_2 + j];
        const f32 y_at = y[j];
        const f32 v0 = x_at + y_at;
        const f32 v1 = ops::exp_op{}(v0);
        const f32 v2 = v1 * 0.5f;
        output[M * i_2 + j] = v2;
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-2};
constexpr std::int64_t dims_2_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "f32[N, M]", kDLFloat, 32, 2, dims_0_},
  {"y", "f32[M]", kDLFloat, 32, 1, dims_1_},
  {"output", "f32[N, M]", kDLFloat, 32, 2, dims_2_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"pointwise", params_, 3, 1, variables_, 2, nullptr, 0, kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[3];
  DLTensor const* tensors_[3];
  std::int64_t extents_[2];
  int bound_by_[2];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  const index_t M = extents_[1];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const f32* const x = static_cast<const f32*>(data_[0]);
  const f32* const y = static_cast<const f32*>(data_[1]);
  f32* const output = static_cast<f32*>(data_[2]);
  kernels::kernel_k0_exp_mul_add(x, y, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(pointwise, tilefoundry::entry_function);
