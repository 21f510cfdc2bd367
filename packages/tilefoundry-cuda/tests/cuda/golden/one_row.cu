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

static CUTE_DEVICE void kernel_one_row_k0_matmul_work(const bf16* __restrict__ const x,
    const bf16* __restrict__ const w, bf16* __restrict__ const output) {
  // v1 = tf.matmul(x, v0): bf16[1, 9000]
  // with Mesh(cta, thread: tile=282, t=256) as m:
  auto const a_ = as_gmem(x, cute::make_layout(cute::make_shape(cute::Int<1>{}, cute::Int<2048>{}),
      cute::make_stride(index_t(2048), cute::Int<1>{})));
  auto const b_ = as_gmem(w, cute::make_layout(cute::make_shape(cute::Int<2048>{}, cute::Int<9000>{}),
      cute::make_stride(cute::Int<1>{}, index_t(2048))));
  auto place_ = as_gmem(static_cast<char*>(nullptr), cute::make_layout(cute::make_shape(cute::Int<1>{},
      cute::Int<9000>{}), cute::make_stride(cute::_0{}, cute::_0{})));
  constexpr int bytes_ = ops::matmul_workspace_bytes<decltype(a_), decltype(b_), 256>();
  alignas(1024) __shared__ unsigned char workspace_[bytes_];
  auto const store_ = [&](auto const& matrix_, int row_, int column_, auto const& sums_) {
    constexpr int V_ = sizeof(sums_.value) / sizeof(sums_.value[0]);
    const index_t row = row_, first = column_;
    detail::Pack<bf16, V_> pack0_;
    CUTE_UNROLL
    for (int slot = 0; slot < V_; ++slot) {
      const index_t column = first + slot;
      const f32 v1_sum = f32(sums_.value[slot]);
      pack0_.value[slot] = convert<bf16>(v1_sum);
    }
    *reinterpret_cast<detail::Pack<bf16, V_>*>(output + first) = pack0_;
  };
  const bool wide_ = detail::is_aligned<16>(output);
  ops::matmul(a_, b_, place_, workspace_, ops::make_packed_epilogue<8>(store_, wide_));
}
extern "C" __global__ void __launch_bounds__(256) kernel_one_row_k0_matmul(const bf16* const x,
    const bf16* const w, bf16* const output) {
  await_earlier_launches();
  kernel_one_row_k0_matmul_work(x, w, output);
}

}  // namespace tilefoundry

// host
// one_row.one_row, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_one_row_k0_matmul", "one_row_k0_matmul", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {INT64_C(9000), INT64_C(2048)};
constexpr std::int64_t dims_1_[] = {INT64_C(1), INT64_C(2048)};
constexpr std::int64_t dims_2_[] = {INT64_C(1), INT64_C(9000)};
constexpr host::Param params_[] = {
  {"w", "bf16[9000, 2048]", kDLBfloat, 16, 2, dims_0_},
  {"x", "bf16[1, 2048]", kDLBfloat, 16, 2, dims_1_},
  {"output", "bf16[1, 9000]", kDLBfloat, 16, 2, dims_2_},
};
constexpr host::Declaration declaration_ = {"one_row", params_, 3, 1, nullptr, 0, nullptr, 0, kDLCUDA};

void entry_function(host::Arguments const& arguments_) {
  void* data_[3];
  DLTensor const* tensors_[3];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  if (host::nothing_to_write(declaration_, bound_)) return;
  const bf16* const w = static_cast<const bf16*>(data_[0]);
  const bf16* const x = static_cast<const bf16*>(data_[1]);
  bf16* const output = static_cast<bf16*>(data_[2]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // one_row_k0_matmul
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&w)), const_cast<void*>(static_cast<const void*>(&output))};
    call_.launch(0, 282, args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(one_row, tilefoundry::entry_function);
