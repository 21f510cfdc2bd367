// column_mean.column_mean, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_reduce(const f32* const x, f32* const output, const index_t M, const index_t N) {
  // v0 = tf.reduce(x, axes=(0), keepdim=False, kind=mean): f32[M]
  parallel_for(((M + 255) / 256), N * 256, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
    for (index_t item = begin; item < end; ++item) {
      const index_t stop = (item * 256 + 256) < M ? (item * 256 + 256) : M;
      alignas(64) f32 v0_columns[256];
#pragma omp simd
      for (index_t c = 0; c < 256; ++c) {
        v0_columns[c] = 0.0f;
      }
      for (index_t r = 0; r < N; ++r) {
#pragma omp simd
        for (index_t c_2 = item * 256; c_2 < stop; ++c_2) {
          const f32 x_at = x[M * r + c_2];
          v0_columns[c_2 - item * 256] = v0_columns[c_2 - item * 256] + x_at;
        }
      }
      alignas(64) f32 v0_final[256];
#pragma omp simd
      for (index_t c_3 = 0; c_3 < 256; ++c_3) {
        v0_final[c_3] = v0_columns[c_3] / convert<f32>(N);
      }
#pragma omp simd
      for (index_t c_4 = item * 256; c_4 < stop; ++c_4) {
        output[c_4] = v0_final[c_4 - item * 256];
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-2};
constexpr host::Param params_[] = {
  {"x", "f32[N, M]", kDLFloat, 32, 2, dims_0_},
  {"output", "f32[M]", kDLFloat, 32, 1, dims_1_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"column_mean", params_, 2, 1, variables_, 2, nullptr, 0, kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[2];
  DLTensor const* tensors_[2];
  std::int64_t extents_[2];
  int bound_by_[2];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  const index_t M = extents_[1];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const f32* const x = static_cast<const f32*>(data_[0]);
  f32* const output = static_cast<f32*>(data_[1]);
  kernels::kernel_k0_reduce(x, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(column_mean, tilefoundry::entry_function);
