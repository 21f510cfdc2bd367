// several.several, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_reduce(const i32* const x, i32* const output0, const index_t M, const index_t N) {
  // v0 = tf.reduce(x, axes=(1), keepdim=True, kind=sum): i32[N, 1]
  parallel_for(N, M, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
    for (index_t item = begin; item < end; ++item) {
      i64 v0_total = INT64_C(0);
#pragma omp simd reduction(+ : v0_total)
      for (index_t j = 0; j < M; ++j) {
        const i32 x_at = x[M * item + j];
        v0_total += convert<i64>(x_at);
      }
      const i32 v0 = convert<i32>(v0_total);
      output0[item] = v0;
    }
  });
}

void kernel_k1_reduce(const i32* const x, i32* const output1, const index_t M, const index_t N) {
  // v1 = tf.reduce(x, axes=(1), keepdim=True, kind=max): i32[N, 1]
  parallel_for(N, M, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
    for (index_t item = begin; item < end; ++item) {
      i64 v1_total = INT64_MIN;
#pragma omp simd reduction(max : v1_total)
      for (index_t j = 0; j < M; ++j) {
        const i32 x_at = x[M * item + j];
        const index_t v1_total_next_ = convert<i64>(x_at);
        v1_total = v1_total_next_ > v1_total ? v1_total_next_ : v1_total;
      }
      const i32 v1 = convert<i32>(v1_total);
      output1[item] = v1;
    }
  });
}

void kernel_k2_neg(const i32* const x, i32* const output2, const index_t M, const index_t N) {
  // v2 = tf.neg(x): i32[N, M]
  parallel_for(M * N, 1, [=](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
#pragma omp simd
    for (index_t j = begin; j < end; ++j) {
      const i32 x_at = x[j];
      const i32 v2 = ops::neg_op{}(x_at);
      output2[j] = v2;
    }
  });
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-1, INT64_C(1)};
constexpr std::int64_t dims_2_[] = {-1, INT64_C(1)};
constexpr std::int64_t dims_3_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "i32[N, M]", kDLInt, 32, 2, dims_0_},
  {"output0", "i32[N, 1]", kDLInt, 32, 2, dims_1_},
  {"output1", "i32[N, 1]", kDLInt, 32, 2, dims_2_},
  {"output2", "i32[N, M]", kDLInt, 32, 2, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"several", params_, 4, 3, variables_, 2, nullptr, 0, kDLCPU};

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
  const i32* const x = static_cast<const i32*>(data_[0]);
  i32* const output0 = static_cast<i32*>(data_[1]);
  i32* const output1 = static_cast<i32*>(data_[2]);
  i32* const output2 = static_cast<i32*>(data_[3]);
  kernels::kernel_k0_reduce(x, output0, M, N);
  kernels::kernel_k1_reduce(x, output1, M, N);
  kernels::kernel_k2_neg(x, output2, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(several, tilefoundry::entry_function);
