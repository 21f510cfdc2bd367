// joined.joined, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_neg(const f32* const y, f32* const v0, const index_t N) {
  // v0 = tf.neg(y): f32[N, 5]
  parallel_for(N * 5, 1, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
#pragma omp simd
    for (index_t j = begin; j < end; ++j) {
      const f32 y_at = y[j];
      const f32 v0_2 = -y_at;
      v0[j] = v0_2;
    }
  });
}

void kernel_k1_concat(const f32* const x, const f32* const v0, f32* const output, const index_t N) {
  // v1 = tf.concat(x, v0, axis=1): f32[N, 8]
  ops::copy(make_view<2>(x, {N, 3}, {3, 1}), make_view<2>(output, {N, 3}, {8, 1}));
  ops::copy(make_view<2>(v0, {N, 5}, {5, 1}), make_view<2>(output + 3, {N, 5}, {8, 1}));
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, INT64_C(3)};
constexpr std::int64_t dims_1_[] = {-1, INT64_C(5)};
constexpr std::int64_t dims_2_[] = {-1, INT64_C(8)};
constexpr host::Param params_[] = {
  {"x", "f32[N, 3]", kDLFloat, 32, 2, dims_0_},
  {"y", "f32[N, 5]", kDLFloat, 32, 2, dims_1_},
  {"output", "f32[N, 8]", kDLFloat, 32, 2, dims_2_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"joined", params_, 3, 1, variables_, 1, nullptr, 0, kDLCPU};

void entry_function(host::Arguments const& arguments_) {
  void* data_[3];
  DLTensor const* tensors_[3];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const f32* const x = static_cast<const f32*>(data_[0]);
  const f32* const y = static_cast<const f32*>(data_[1]);
  f32* const output = static_cast<f32*>(data_[2]);
  const index_t slot0_ = 0;
  const host::Slab slab_(slot0_ + host::padded(N * 20), DLDevice{kDLCPU, 0});
  f32* const v0 = slab_.at<f32>(slot0_);
  kernels::kernel_k0_neg(y, v0, N);
  kernels::kernel_k1_concat(x, v0, output, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(joined, tilefoundry::entry_function);
