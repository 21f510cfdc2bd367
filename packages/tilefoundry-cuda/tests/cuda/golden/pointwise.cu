// image 0
#define TILEFOUNDRY_USE_ELEMENTWISE
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<256>>{};
}
[[maybe_unused]] constexpr int program_threads = 256;

static CUTE_DEVICE void kernel_pointwise_k0_exp_mul_add_work(const f32* __restrict__ const x,
    const f32* __restrict__ const y, f32* __restrict__ const output, const index_t M, const index_t N) {
  // v0 = tf.add(x, y): f32[N, M]
  // v1 = tf.exp(v0): f32[N, M]
  // v2 = tf.mul(v1, 0.5): f32[N, M]
  // with Mesh(cta, thread: block=N, tile=((M + 1023) // 1024), lane=256) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 256;
    const index_t item = index_t(program_id<TopologyScope::cta>());
    const index_t i = item % (((M + 1023) / 1024));
    const index_t i_2 = item / (((M + 1023) / 1024));
    if constexpr (V_ > 1) {
      detail::Pack<f32, V_> pack0_[4 / V_];
      CUTE_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = i * 1024 + (piece_ * 256 + lane) * V_;
        if (first < M) {
          pack0_[piece_] = *reinterpret_cast<detail::Pack<f32, V_> const*>(x + M * i_2 + first);
        }
      }
      CUTE_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = i * 1024 + (piece_ * 256 + lane) * V_;
        if (first < M) {
          detail::Pack<f32, V_> pack1_;
          pack1_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(y + first);
          detail::Pack<f32, V_> pack2_;
          CUTE_UNROLL
          for (int slot = 0; slot < V_; ++slot) {
            const index_t j = first + slot;
            const f32 x_at = pack0_[piece_].value[slot];
            const f32 y_at = pack1_.value[slot];
            const f32 v0 = x_at + y_at;
            const f32 v1 = ops::exp_op{}(v0);
            const f32 v2 = v1 * 0.5f;
            pack2_.value[slot] = v2;
          }
          *reinterpret_cast<detail::Pack<f32, V_>*>(output + M * i_2 + first) = pack2_;
        }
      }
    }
    else {
      CUTE_NO_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = i * 1024 + (piece_ * 256 + lane) * V_;
        if (first < M) {
          detail::Pack<f32, V_> pack0_;
          pack0_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(x + M * i_2 + first);
          detail::Pack<f32, V_> pack1_;
          pack1_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(y + first);
          detail::Pack<f32, V_> pack2_;
          CUTE_UNROLL
          for (int slot = 0; slot < V_; ++slot) {
            const index_t j = first + slot;
            const f32 x_at = pack0_.value[slot];
            const f32 y_at = pack1_.value[slot];
            const f32 v0 = x_at + y_at;
            const f32 v1 = ops::exp_op{}(v0);
            const f32 v2 = v1 * 0.5f;
            pack2_.value[slot] = v2;
          }
          *reinterpret_cast<detail::Pack<f32, V_>*>(output + M * i_2 + first) = pack2_;
        }
      }
    }
  };
  if (detail::is_aligned<16>(x) && detail::is_aligned<16>(y) && detail::is_aligned<16>(output) && (M) % 4 == 0)
      {
    body_(cute::Int<4>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_pointwise_k0_exp_mul_add(const f32* const x,
    const f32* const y, f32* const output, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_pointwise_k0_exp_mul_add_work(x, y, output, M, N);
}

}  // namespace tilefoundry

// host
// pointwise.pointwise, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_pointwise_k0_exp_mul_add", "pointwise_k0_exp_mul_add", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-2};
constexpr std::int64_t dims_2_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "f32[N, M]", kDLFloat, 32, 2, dims_0_},
  {"y", "f32[M]", kDLFloat, 32, 1, dims_1_},
  {"output", "f32[N, M]", kDLFloat, 32, 2, dims_2_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"pointwise", params_, 3, 1, variables_, 2, nullptr, 0, kDLCUDA};

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
  const f32* const x = static_cast<const f32*>(data_[0]);
  const f32* const y = static_cast<const f32*>(data_[1]);
  f32* const output = static_cast<f32*>(data_[2]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // pointwise_k0_exp_mul_add
    const index_t argument3_ = M;
    const index_t argument4_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&y)), const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument3_)),
        const_cast<void*>(static_cast<const void*>(&argument4_))};
    call_.launch(0, N * ((M + 1023) / 1024), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(pointwise, tilefoundry::entry_function);
