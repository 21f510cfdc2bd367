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

static CUTE_DEVICE void kernel_narrow_weights_k0_matmul_relu_mul_work(const i8* __restrict__ const w,
    const bf16* __restrict__ const scale, const bf16* __restrict__ const g, const bf16* __restrict__ const u,
    const bf16* __restrict__ const b, bf16* __restrict__ const output) {
  // v0 = tf.cast(w, dtype=bf16): bf16[512, 256]
  // v1 = tf.mul(v0, scale): bf16[512, 256]
  // v2 = tf.transpose(v1, perm=(1, 0)): bf16[256, 512]
  // v3 = tf.relu(g): bf16[2, 256]
  // v4 = tf.mul(v3, u): bf16[2, 256]
  // v5 = tf.matmul(v4, v2): bf16[2, 512]
  // v6 = tf.add(v5, b): bf16[2, 512]
  // with Mesh(cta, thread: tile=512, t=256) as m:
  auto const a_at_ = [&](auto width_, [[maybe_unused]] auto here_, [[maybe_unused]] int batch_, int first_,
      int second_) {
    [[maybe_unused]] constexpr int V_ = decltype(width_)::value;
    [[maybe_unused]] const index_t batch = batch_;
    [[maybe_unused]] const index_t other = first_;
    [[maybe_unused]] const index_t first = second_;
    const detail::Pack<bf16, V_> pack0_ = *reinterpret_cast<detail::Pack<bf16,
        V_> const*>(g + first + other * 256);
    const detail::Pack<bf16, V_> pack1_ = *reinterpret_cast<detail::Pack<bf16,
        V_> const*>(u + first + other * 256);
    return [=]([[maybe_unused]] int slot) {
      [[maybe_unused]] const index_t element = first + slot;
      const f32 g_at = widen(pack0_.value[slot]);
      const f32 v3 = ops::relu_op{}(g_at);
      const f32 u_at = widen(pack1_.value[slot]);
      const f32 v4 = v3 * u_at;
      return f32(v4);
    };
  };
  auto a_ = ops::computed_packs<bf16, true, 8>(int(2), int(256),
      detail::is_aligned<16>(g) && detail::is_aligned<16>(u), a_at_);
  auto const b0_at_ = [&](auto width_, [[maybe_unused]] auto here_, [[maybe_unused]] int batch_, int first_,
      int second_) {
    [[maybe_unused]] constexpr int V_ = decltype(width_)::value;
    [[maybe_unused]] const index_t batch_2 = batch_;
    [[maybe_unused]] const index_t other_2 = second_;
    [[maybe_unused]] const index_t first_2 = first_;
    const f32 scale_at = widen(scale[other_2]);
    const detail::BytePack<i8,
        V_> pack0_ = detail::load_pack<decltype(here_)::value>(reinterpret_cast<detail::BytePack<i8,
        V_> const*>(w + first_2 + other_2 * 256));
    return [=]([[maybe_unused]] int slot_2) {
      [[maybe_unused]] const index_t element_2 = first_2 + slot_2;
      const f32 v0 = detail::byte_as_float(pack0_, slot_2);
      const f32 v1 = v0 * scale_at;
      return f32(v1);
    };
  };
  auto b0_ = ops::computed_packs<bf16, false, 16>(int(256), int(512), detail::is_aligned<16>(w), b0_at_);
  auto const right_ = ops::right_operands(b0_);
  auto place_ = as_gmem(static_cast<char*>(nullptr), cute::make_layout(cute::make_shape(cute::Int<2>{},
      cute::Int<512>{}), cute::make_stride(cute::_0{}, cute::_0{})));
  constexpr int bytes_ = ops::group_workspace_bytes<decltype(a_), decltype(right_), 256, 2, 512>();
  alignas(16) __shared__ unsigned char workspace_[bytes_];
  auto const store_ = [&](int matrix_, int row_, int column_, auto const& sums_) {
    [[maybe_unused]] const index_t batch_3 = matrix_;
    [[maybe_unused]] const index_t row = row_;
    [[maybe_unused]] const index_t column = column_;
    [[maybe_unused]] const f32 v5_sum = f32(sums_.value[0]);
    const f32 b_at = widen(b[column]);
    const f32 v6 = v5_sum + b_at;
    output[column + row * 512] = convert<bf16>(v6);
  };
  ops::matmul(a_, right_, place_, workspace_, store_);
}
extern "C" __global__ void __launch_bounds__(256) kernel_narrow_weights_k0_matmul_relu_mul(const i8* const w,
    const bf16* const scale, const bf16* const g, const bf16* const u, const bf16* const b,
    bf16* const output) {
  await_earlier_launches();
  kernel_narrow_weights_k0_matmul_relu_mul_work(w, scale, g, u, b, output);
}

}  // namespace tilefoundry

// host
// narrow_weights.narrow_weights, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_narrow_weights_k0_matmul_relu_mul", "narrow_weights_k0_matmul_relu_mul", 0, 256, nullptr, false,
      true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {INT64_C(512), INT64_C(256)};
constexpr std::int64_t dims_1_[] = {INT64_C(512), INT64_C(1)};
constexpr std::int64_t dims_2_[] = {INT64_C(2), INT64_C(256)};
constexpr std::int64_t dims_3_[] = {INT64_C(2), INT64_C(256)};
constexpr std::int64_t dims_4_[] = {INT64_C(512)};
constexpr std::int64_t dims_5_[] = {INT64_C(2), INT64_C(512)};
constexpr host::Param params_[] = {
  {"w", "i8[512, 256]", kDLInt, 8, 2, dims_0_},
  {"scale", "bf16[512, 1]", kDLBfloat, 16, 2, dims_1_},
  {"g", "bf16[2, 256]", kDLBfloat, 16, 2, dims_2_},
  {"u", "bf16[2, 256]", kDLBfloat, 16, 2, dims_3_},
  {"b", "bf16[512]", kDLBfloat, 16, 1, dims_4_},
  {"output", "bf16[2, 512]", kDLBfloat, 16, 2, dims_5_},
};
constexpr host::Declaration declaration_ = {"narrow_weights", params_, 6, 1, nullptr, 0, nullptr, 0, kDLCUDA};

void entry_function(host::Arguments const& arguments_) {
  void* data_[6];
  DLTensor const* tensors_[6];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  if (host::nothing_to_write(declaration_, bound_)) return;
  const i8* const w = static_cast<const i8*>(data_[0]);
  const bf16* const scale = static_cast<const bf16*>(data_[1]);
  const bf16* const g = static_cast<const bf16*>(data_[2]);
  const bf16* const u = static_cast<const bf16*>(data_[3]);
  const bf16* const b = static_cast<const bf16*>(data_[4]);
  bf16* const output = static_cast<bf16*>(data_[5]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // narrow_weights_k0_matmul_relu_mul
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&w)),
        const_cast<void*>(static_cast<const void*>(&scale)), const_cast<void*>(static_cast<const void*>(&g)),
        const_cast<void*>(static_cast<const void*>(&u)), const_cast<void*>(static_cast<const void*>(&b)),
        const_cast<void*>(static_cast<const void*>(&output))};
    call_.launch(0, 512, args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(narrow_weights, tilefoundry::entry_function);
