// heads.heads, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_matmul_reduce_exp(const f32* const x, f32* const v4, const index_t M, const index_t N) {
  // v3 = tf.matmul(v1, v2): f32[N, 3, M, M]
  // row_max = tf.reduce(v3, axes=(3), keepdim=True, kind=max): f32[N, 3, M, 1]
  // shifted = tf.sub(v3, row_max): f32[N, 3, M, M]
  // weight = tf.exp(shifted): f32[N, 3, M, M]
  // row_sum = tf.reduce(weight, axes=(3), keepdim=True, kind=sum): f32[N, 3, M, 1]
  // v4 = tf.div(weight, row_sum): f32[N, 3, M, M]
  const auto lhs_ = make_view<4>(x, {N, 3, M, 8}, {M * 24, 8, 24, 1});
  const auto rhs_ = make_view<4>(x, {N, 3, 8, M}, {M * 24, 8, 1, 24});
  const auto dst_ = make_view<4>(v4, {N, 3, M, M}, {M * M * 3, M * M, M, 1});
  ops::contract<true>(lhs_, rhs_, dst_, [=](f32* v3_block, index_t pitch, index_t batch, index_t row_begin,
      index_t row_end, index_t column_begin, index_t column_end) {
    const index_t i = batch % 3;
    const index_t i_2 = batch / 3;
    const Scratch<f32> weight_row_memory_(M);
    f32* const weight_row = weight_row_memory_;
    for (index_t i_3 = row_begin; i_3 < row_end; ++i_3) {
      f32 row_max_total = -std::numeric_limits<f32>::infinity();
      auto row_max_total_key_ = key_for_max(row_max_total);
#pragma omp simd reduction(max : row_max_total_key_)
      for (index_t j = column_begin; j < column_end; ++j) {
        const f32 v3 = v3_block[i_3 * pitch - pitch * row_begin - column_begin + j];
        const auto row_max_total_next_ = key_for_max(v3);
        row_max_total_key_ = row_max_total_next_ > row_max_total_key_ ? row_max_total_next_ :
            row_max_total_key_;
      }
      row_max_total = from_key_for_max(row_max_total_key_);
      f32 row_sum_total = 0.0f;
#pragma omp simd reduction(+ : row_sum_total)
      for (index_t j_2 = column_begin; j_2 < column_end; ++j_2) {
        const f32 v3_2 = v3_block[i_3 * pitch - pitch * row_begin - column_begin + j_2];
        const f32 shifted = v3_2 - row_max_total;
        const f32 weight = ops::exp_op{}(shifted);
        weight_row[-column_begin + j_2] = weight;
        row_sum_total += weight;
      }
#pragma omp simd
      for (index_t j_3 = column_begin; j_3 < column_end; ++j_3) {
        const f32 v3_3 = v3_block[i_3 * pitch - pitch * row_begin - column_begin + j_3];
        const f32 v4_2 = weight_row[-column_begin + j_3] / row_sum_total;
        v4[M * M * i + M * M * i_2 * 3 + M * i_3 + j_3] = v4_2;
      }
    }
  });
}

void kernel_k1_matmul(const f32* const v4, const f32* const x, f32* const output, const index_t M,
    const index_t N) {
  // v5 = tf.matmul(v4, v1): f32[N, 3, M, 8]
  const auto lhs_ = make_view<4>(v4, {N, 3, M, M}, {M * M * 3, M * M, M, 1});
  const auto rhs_ = make_view<4>(x, {N, 3, M, 8}, {M * 24, 8, 24, 1});
  const auto dst_ = make_view<4>(output, {N, 3, M, 8}, {M * 24, 8, 24, 1});
  ops::contract<false>(lhs_, rhs_, dst_, ops::no_epilogue{});
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {-1, -2, INT64_C(24)};
constexpr std::int64_t dims_1_[] = {-1, -2, INT64_C(24)};
constexpr host::Param params_[] = {
  {"x", "f32[N, M, 24]", kDLFloat, 32, 3, dims_0_},
  {"output", "f32[N, M, 24]", kDLFloat, 32, 3, dims_1_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"heads", params_, 2, 1, variables_, 2, nullptr, 0, kDLCPU};

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
  const index_t slot0_ = 0;
  const host::Slab slab_(slot0_ + host::padded(M * M * N * 12), DLDevice{kDLCPU, 0});
  f32* const v4 = slab_.at<f32>(slot0_);
  kernels::kernel_k0_matmul_reduce_exp(x, v4, M, N);
  kernels::kernel_k1_matmul(v4, x, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(heads, tilefoundry::entry_function);
