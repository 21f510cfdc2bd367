// image 0
#define TILEFOUNDRY_USE_ELEMENTWISE
#define TILEFOUNDRY_USE_MATMUL
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<288>>{};
}
[[maybe_unused]] constexpr int program_threads = 288;

extern "C" __device__ unsigned char kernel_linear_gated_k0_matmul_silu_mul_shared_kib[(ops::matmul_bytes<bf16,
    bf16, 288>() + 1023) / 1024] = {};
extern "C" __global__ void TILEFOUNDRY_PAIRED_BLOCKS __launch_bounds__(288)
    kernel_linear_gated_k0_matmul_silu_mul(const bf16* const x, const bf16* const w, const bf16* const gate,
    bf16* const output, const index_t N) {
  // v1 = tf.matmul(x, v0): bf16[N, 256]
  // v2 = tf.silu(gate): bf16[N, 256]
  // v3 = tf.mul(v1, v2): bf16[N, 256]
  // with Mesh(cta, thread: tile=((N + 63) // 64) * 4, t=288) as m:
  auto const a_ = as_gmem(x, cute::make_layout(cute::make_shape(index_t(N), cute::Int<64>{}),
      cute::make_stride(index_t(64), cute::Int<1>{})));
  auto const b_ = as_gmem(w, cute::make_layout(cute::make_shape(cute::Int<64>{}, cute::Int<256>{}),
      cute::make_stride(cute::Int<1>{}, index_t(64))));
  auto place_ = as_gmem(static_cast<char*>(nullptr), cute::make_layout(cute::make_shape(index_t(N),
      cute::Int<256>{}), cute::make_stride(cute::_0{}, cute::_0{})));
  TILEFOUNDRY_DYNAMIC_SHARED(workspace_);
  auto const store_ = [&](auto const& matrix_, int row_, int column_, auto const& sums_) {
    constexpr int V_ = sizeof(sums_.value) / sizeof(sums_.value[0]);
    const index_t row = row_, first = column_;
    detail::Pack<bf16, V_> pack0_;
    pack0_ = *reinterpret_cast<detail::Pack<bf16, V_> const*>(gate + first + row * 256);
    detail::Pack<bf16, V_> pack1_;
    CUTE_UNROLL
    for (int slot = 0; slot < V_; ++slot) {
      const index_t column = first + slot;
      const f32 v1_sum = f32(sums_.value[slot]);
      const f32 gate_at = widen(pack0_.value[slot]);
      const f32 v2 = ops::approximate<ops::silu_op>{}(gate_at);
      const f32 v3 = v1_sum * v2;
      pack1_.value[slot] = convert<bf16>(v3);
    }
    *reinterpret_cast<detail::Pack<bf16, V_>*>(output + first + row * 256) = pack1_;
  };
  const bool wide_ = detail::is_aligned<16>(gate) && detail::is_aligned<16>(output);
  ops::matmul(a_, b_, place_, workspace_, ops::make_packed_epilogue<8>(store_, wide_));
}

}  // namespace tilefoundry

// host
// linear_gated.linear_gated, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_linear_gated_k0_matmul_silu_mul", "linear_gated_k0_matmul_silu_mul", 0, 288,
      "kernel_linear_gated_k0_matmul_silu_mul_shared_kib", false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, INT64_C(256)};
constexpr std::int64_t dims_1_[] = {INT64_C(256), INT64_C(64)};
constexpr std::int64_t dims_2_[] = {-1, INT64_C(64)};
constexpr std::int64_t dims_3_[] = {-1, INT64_C(256)};
constexpr host::Param params_[] = {
  {"gate", "bf16[N, 256]", kDLBfloat, 16, 2, dims_0_},
  {"w", "bf16[256, 64]", kDLBfloat, 16, 2, dims_1_},
  {"x", "bf16[N, 64]", kDLBfloat, 16, 2, dims_2_},
  {"output", "bf16[N, 256]", kDLBfloat, 16, 2, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"linear_gated", params_, 4, 1, variables_, 1, nullptr, 0, kDLCUDA};

void entry_function(host::Arguments const& arguments_) {
  void* data_[4];
  DLTensor const* tensors_[4];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const bf16* const gate = static_cast<const bf16*>(data_[0]);
  const bf16* const w = static_cast<const bf16*>(data_[1]);
  const bf16* const x = static_cast<const bf16*>(data_[2]);
  bf16* const output = static_cast<bf16*>(data_[3]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // linear_gated_k0_matmul_silu_mul
    const index_t argument4_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&w)), const_cast<void*>(static_cast<const void*>(&gate)),
        const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument4_))};
    call_.launch(0, call_.persistent(0, ((N + 63) / 64) * 4), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(linear_gated, tilefoundry::entry_function);
