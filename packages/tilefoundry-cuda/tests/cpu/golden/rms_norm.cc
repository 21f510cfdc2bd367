// rms_norm.rms_norm, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_square_reduce_rsqrt(const bf16* const x, const bf16* const w, bf16* const output,
    const index_t N) {
  // wide = tf.cast(x, dtype=f32): f32[N, 256]
  // wide_2 = tf.cast(w, dtype=f32): f32[256]
  // squared = tf.square(wide): f32[N, 256]
  // mean_square = tf.reduce(squared, axes=(1), keepdim=True, kind=mean): f32[N, 1]
  // shifted = tf.add(mean_square, 1e-06): f32[N, 1]
  // scale = tf.rsqrt(shifted): f32[N, 1]
  // row = tf.mul(wide, scale): f32[N, 256]
  // row_2 = tf.mul(row, wide_2): f32[N, 256]
  // v0 = tf.cast(row_2, dtype=bf16): bf16[N, 256]
  parallel_for(N, 3584, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
    for (index_t item = begin; item < end; ++item) {
      f32 mean_square_total = 0.0f;
      mean_square_total += sum_in_lanes<32, f32>(0, 256, [&](index_t j) TILEFOUNDRY_CHUNK {
        const f32 x_at = widen(x[item * 256 + j]);
        const f32 wide = convert<f32>(x_at);
        const f32 squared = ops::square_op{}(wide);
        return squared;
      });
      const f32 mean_square = mean_square_total / convert<f32>(256);
      const f32 shifted = mean_square + 1e-06f;
      const f32 scale = ops::rsqrt_op{}(shifted);
#pragma omp simd
      for (index_t j_2 = 0; j_2 < 256; ++j_2) {
        const f32 x_at_2 = widen(x[item * 256 + j_2]);
        const f32 wide_2 = convert<f32>(x_at_2);
        const f32 row = wide_2 * scale;
        const f32 w_at = widen(w[j_2]);
        const f32 wide_2_2 = convert<f32>(w_at);
        const f32 row_2 = row * wide_2_2;
        const f32 v0 = widen(convert<bf16>(row_2));
        output[item * 256 + j_2] = convert<bf16>(v0);
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, INT64_C(256)};
constexpr std::int64_t dims_1_[] = {INT64_C(256)};
constexpr std::int64_t dims_2_[] = {-1, INT64_C(256)};
constexpr host::Param params_[] = {
  {"x", "bf16[N, 256]", kDLBfloat, 16, 2, dims_0_},
  {"w", "bf16[256]", kDLBfloat, 16, 1, dims_1_},
  {"output", "bf16[N, 256]", kDLBfloat, 16, 2, dims_2_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"rms_norm", params_, 3, 1, variables_, 1, nullptr, 0, kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[3];
  DLTensor const* tensors_[3];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const bf16* const x = static_cast<const bf16*>(data_[0]);
  const bf16* const w = static_cast<const bf16*>(data_[1]);
  bf16* const output = static_cast<bf16*>(data_[2]);
  kernels::kernel_k0_square_reduce_rsqrt(x, w, output, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, tilefoundry::entry_function);
