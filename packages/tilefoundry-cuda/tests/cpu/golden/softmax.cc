// softmax.softmax, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_reduce_exp_sub(const f32* const x, f32* const output, const index_t M, const index_t N) {
  // row_max = tf.reduce(x, axes=(1), keepdim=True, kind=max): f32[N, 1]
  // shifted = tf.sub(x, row_max): f32[N, M]
  // weight = tf.exp(shifted): f32[N, M]
  // row_sum = tf.reduce(weight, axes=(1), keepdim=True, kind=sum): f32[N, 1]
  // v0 = tf.div(weight, row_sum): f32[N, M]
  parallel_for(N, M * 15, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
    for (index_t item = begin; item < end; ++item) {
      f32 row_max_total = -std::numeric_limits<f32>::infinity();
      auto row_max_total_key_ = key_for_max(row_max_total);
#pragma omp simd reduction(max : row_max_total_key_)
      for (index_t j = 0; j < M; ++j) {
        const f32 x_at = x[M * item + j];
        const auto row_max_total_next_ = key_for_max(x_at);
        row_max_total_key_ = row_max_total_next_ > row_max_total_key_ ? row_max_total_next_ :
            row_max_total_key_;
      }
      row_max_total = from_key_for_max(row_max_total_key_);
      f32 row_sum_total = 0.0f;
#pragma omp simd reduction(+ : row_sum_total)
      for (index_t j_2 = 0; j_2 < M; ++j_2) {
        const f32 x_at_2 = x[M * item + j_2];
        const f32 shifted = x_at_2 - row_max_total;
        const f32 weight = ops::exp_op{}(shifted);
        output[M * item + j_2] = weight;
        row_sum_total += weight;
      }
#pragma omp simd
      for (index_t j_3 = 0; j_3 < M; ++j_3) {
        const f32 v0 = output[M * item + j_3] / row_sum_total;
        output[M * item + j_3] = v0;
      }
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "f32[N, M]", kDLFloat, 32, 2, dims_0_},
  {"output", "f32[N, M]", kDLFloat, 32, 2, dims_1_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"softmax", params_, 2, 1, variables_, 2, nullptr, 0, kDLCPU};

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
  kernels::kernel_k0_reduce_exp_sub(x, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, tilefoundry::entry_function);
