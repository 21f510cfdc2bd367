// flat_bf16.flat_bf16, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_silu_mul(const bf16* const g, const bf16* const u, bf16* const output, const index_t M,
    const index_t N) {
  // v0 = tf.silu(g): bf16[N, M]
  // v1 = tf.mul(v0, u): bf16[N, M]
  parallel_for(M * N, 16, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
#pragma omp simd
    for (index_t j = begin; j < end; ++j) {
      const f32 g_at = widen(g[j]);
      const f32 v0 = ops::silu_op{}(g_at);
      const f32 u_at = widen(u[j]);
      const f32 v1 = v0 * u_at;
      output[j] = convert<bf16>(v1);
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-1, -2};
constexpr std::int64_t dims_2_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"g", "bf16[N, M]", kDLBfloat, 16, 2, dims_0_},
  {"u", "bf16[N, M]", kDLBfloat, 16, 2, dims_1_},
  {"output", "bf16[N, M]", kDLBfloat, 16, 2, dims_2_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"flat_bf16", params_, 3, 1, variables_, 2, nullptr, 0, kDLCPU};

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
  const bf16* const g = static_cast<const bf16*>(data_[0]);
  const bf16* const u = static_cast<const bf16*>(data_[1]);
  bf16* const output = static_cast<bf16*>(data_[2]);
  kernels::kernel_k0_silu_mul(g, u, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(flat_bf16, tilefoundry::entry_function);
