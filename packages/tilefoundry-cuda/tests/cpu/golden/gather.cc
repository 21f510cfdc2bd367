// gather.gather, compiled by TileFoundry for the CPU.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
namespace {
namespace kernels {

void kernel_k0_index_select_add(const f32* const table, const i64* const ids, const f32* const position,
    f32* const output, const index_t M, const index_t N) {
  // v0 = tf.index_select(table, ids, dim=0): f32[N, M, 16]
  // v1 = tf.add(v0, position): f32[N, M, 16]
  IndexFault fault;
  parallel_for(M * N, 32, [=, &fault](index_t begin, index_t end) TILEFOUNDRY_CHUNK {
    for (index_t item = begin; item < end; ++item) {
      const index_t i = item % M;
      const index_t i_2 = item / M;
      const index_t ids_at = ids[M * i_2 + i];
      const index_t v0_row = fault.bounded(ids_at, 100);
#pragma omp simd
      for (index_t j = 0; j < 16; ++j) {
        const f32 table_at = table[j + v0_row * 16];
        const f32 position_at = position[i * 16 + j];
        const f32 v1 = table_at + position_at;
        output[M * i_2 * 16 + i * 16 + j] = v1;
      }
    }
  });
  fault.check("index_select", 100);
}

}  // namespace kernels

constexpr std::int64_t dims_0_[] = {INT64_C(100), INT64_C(16)};
constexpr std::int64_t dims_1_[] = {-1, -2};
constexpr std::int64_t dims_2_[] = {-2, INT64_C(16)};
constexpr std::int64_t dims_3_[] = {-1, -2, INT64_C(16)};
constexpr host::Param params_[] = {
  {"table", "f32[100, 16]", kDLFloat, 32, 2, dims_0_},
  {"ids", "i64[N, M]", kDLInt, 64, 2, dims_1_},
  {"position", "f32[M, 16]", kDLFloat, 32, 2, dims_2_},
  {"output", "f32[N, M, 16]", kDLFloat, 32, 3, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"gather", params_, 4, 1, variables_, 2, nullptr, 0, kDLCPU};

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
  const f32* const table = static_cast<const f32*>(data_[0]);
  const i64* const ids = static_cast<const i64*>(data_[1]);
  const f32* const position = static_cast<const f32*>(data_[2]);
  f32* const output = static_cast<f32*>(data_[3]);
  kernels::kernel_k0_index_select_add(table, ids, position, output, M, N);
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gather, tilefoundry::entry_function);
