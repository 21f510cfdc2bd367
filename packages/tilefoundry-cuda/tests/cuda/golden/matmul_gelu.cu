// image 0
#define TILEFOUNDRY_USE_ELEMENTWISE
#define TILEFOUNDRY_USE_MATMUL
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<256>>{};
}
[[maybe_unused]] constexpr int program_threads = 256;

static CUTE_DEVICE void kernel_matmul_gelu_k0_matmul_gelu_add_work(const f32* __restrict__ const x,
    const f32* __restrict__ const w, const f32* __restrict__ const b, f32* __restrict__ const output,
    const index_t M, const index_t N) {
  // v0 = tf.matmul(x, w): f32[N, M]
  // v1 = tf.add(v0, b): f32[N, M]
  // v2 = tf.gelu(v1, approximate=tanh): f32[N, M]
  // with Mesh(cta, thread: tile=((M + 63) // 64) * ((N + 63) // 64), t=256) as m:
  auto const a_ = as_gmem(x, cute::make_layout(cute::make_shape(index_t(N), cute::Int<64>{}),
      cute::make_stride(index_t(64), cute::Int<1>{})));
  auto const b_ = as_gmem(w, cute::make_layout(cute::make_shape(cute::Int<64>{}, index_t(M)),
      cute::make_stride(index_t(M), cute::Int<1>{})));
  auto place_ = as_gmem(static_cast<char*>(nullptr), cute::make_layout(cute::make_shape(index_t(N),
      index_t(M)), cute::make_stride(cute::_0{}, cute::_0{})));
  constexpr int bytes_ = ops::matmul_workspace_bytes<decltype(a_), decltype(b_), 256>();
  alignas(1024) __shared__ unsigned char workspace_[bytes_];
  auto const store_ = [&](auto const& matrix_, int row_, int column_, auto const& sums_) {
    constexpr int V_ = sizeof(sums_.value) / sizeof(sums_.value[0]);
    const index_t row = row_, first = column_;
    detail::Pack<f32, V_> pack0_;
    pack0_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(b + first);
    detail::Pack<f32, V_> pack1_;
    CUTE_UNROLL
    for (int slot = 0; slot < V_; ++slot) {
      const index_t column = first + slot;
      const f32 v0_sum = f32(sums_.value[slot]);
      const f32 b_at = pack0_.value[slot];
      const f32 v1 = v0_sum + b_at;
      const f32 v2 = ops::gelu_tanh_op{}(v1);
      pack1_.value[slot] = v2;
    }
    *reinterpret_cast<detail::Pack<f32, V_>*>(output + M * row + first) = pack1_;
  };
  const bool wide_ = detail::is_aligned<16>(b) && detail::is_aligned<16>(output) && (M) % 4 == 0;
  ops::matmul(a_, b_, place_, workspace_, ops::make_packed_epilogue<4>(store_, wide_));
}
extern "C" __global__ void __launch_bounds__(256) kernel_matmul_gelu_k0_matmul_gelu_add(const f32* const x,
    const f32* const w, const f32* const b, f32* const output, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_matmul_gelu_k0_matmul_gelu_add_work(x, w, b, output, M, N);
}

}  // namespace tilefoundry

// host
// matmul_gelu.matmul_gelu, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_matmul_gelu_k0_matmul_gelu_add", "matmul_gelu_k0_matmul_gelu_add", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, INT64_C(64)};
constexpr std::int64_t dims_1_[] = {INT64_C(64), -2};
constexpr std::int64_t dims_2_[] = {-2};
constexpr std::int64_t dims_3_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "f32[N, 64]", kDLFloat, 32, 2, dims_0_},
  {"w", "f32[64, M]", kDLFloat, 32, 2, dims_1_},
  {"b", "f32[M]", kDLFloat, 32, 1, dims_2_},
  {"output", "f32[N, M]", kDLFloat, 32, 2, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"matmul_gelu", params_, 4, 1, variables_, 2, nullptr, 0, kDLCUDA};

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
  const f32* const x = static_cast<const f32*>(data_[0]);
  const f32* const w = static_cast<const f32*>(data_[1]);
  const f32* const b = static_cast<const f32*>(data_[2]);
  f32* const output = static_cast<f32*>(data_[3]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // matmul_gelu_k0_matmul_gelu_add
    const index_t argument4_ = M;
    const index_t argument5_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&w)), const_cast<void*>(static_cast<const void*>(&b)),
        const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument4_)),
        const_cast<void*>(static_cast<const void*>(&argument5_))};
    call_.launch(0, ((M + 63) / 64) * ((N + 63) / 64), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(matmul_gelu, tilefoundry::entry_function);
