// image 0
#define TILEFOUNDRY_USE_ELEMENTWISE
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<256>>{};
}
[[maybe_unused]] constexpr int program_threads = 256;

static CUTE_DEVICE void kernel_flat_bf16_k0_silu_mul_work(const bf16* __restrict__ const g,
    const bf16* __restrict__ const u, bf16* __restrict__ const output, const index_t M, const index_t N) {
  // v0 = tf.silu(g): bf16[N, M]
  // v1 = tf.mul(v0, u): bf16[N, M]
  // with Mesh(cta, thread: block=((M * N + 2047) // 2048), lane=256) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 256;
    const index_t item = index_t(program_id<TopologyScope::cta>());
    if constexpr (V_ > 1) {
      detail::Pack<bf16, V_> pack0_[8 / V_];
      detail::Pack<bf16, V_> pack1_[8 / V_];
      CUTE_UNROLL
      for (int piece_ = 0; piece_ < 8 / V_; ++piece_) {
        const index_t first = item * 2048 + (piece_ * 256 + lane) * V_;
        if (first < M * N) {
          pack0_[piece_] = *reinterpret_cast<detail::Pack<bf16, V_> const*>(g + first);
          pack1_[piece_] = *reinterpret_cast<detail::Pack<bf16, V_> const*>(u + first);
        }
      }
      CUTE_UNROLL
      for (int piece_ = 0; piece_ < 8 / V_; ++piece_) {
        const index_t first = item * 2048 + (piece_ * 256 + lane) * V_;
        if (first < M * N) {
          detail::Pack<bf16, V_> pack2_;
          CUTE_UNROLL
          for (int slot = 0; slot < V_; ++slot) {
            const index_t j = first + slot;
            const f32 g_at = widen(pack0_[piece_].value[slot]);
            const f32 v0 = ops::approximate<ops::silu_op>{}(g_at);
            const f32 u_at = widen(pack1_[piece_].value[slot]);
            const f32 v1 = v0 * u_at;
            pack2_.value[slot] = convert<bf16>(v1);
          }
          *reinterpret_cast<detail::Pack<bf16, V_>*>(output + first) = pack2_;
        }
      }
    }
    else {
      CUTE_NO_UNROLL
      for (int piece_ = 0; piece_ < 8 / V_; ++piece_) {
        const index_t first = item * 2048 + (piece_ * 256 + lane) * V_;
        if (first < M * N) {
          detail::Pack<bf16, V_> pack0_;
          pack0_ = *reinterpret_cast<detail::Pack<bf16, V_> const*>(g + first);
          detail::Pack<bf16, V_> pack1_;
          pack1_ = *reinterpret_cast<detail::Pack<bf16, V_> const*>(u + first);
          detail::Pack<bf16, V_> pack2_;
          CUTE_UNROLL
          for (int slot = 0; slot < V_; ++slot) {
            const index_t j = first + slot;
            const f32 g_at = widen(pack0_.value[slot]);
            const f32 v0 = ops::approximate<ops::silu_op>{}(g_at);
            const f32 u_at = widen(pack1_.value[slot]);
            const f32 v1 = v0 * u_at;
            pack2_.value[slot] = convert<bf16>(v1);
          }
          *reinterpret_cast<detail::Pack<bf16, V_>*>(output + first) = pack2_;
        }
      }
    }
  };
  if (detail::is_aligned<16>(g) && detail::is_aligned<16>(u) && detail::is_aligned<16>(output) && (M) % 8 == 0
      && (M * N) % 8 == 0) {
    body_(cute::Int<8>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_flat_bf16_k0_silu_mul(const bf16* const g,
    const bf16* const u, bf16* const output, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_flat_bf16_k0_silu_mul_work(g, u, output, M, N);
}

}  // namespace tilefoundry

// host
// flat_bf16.flat_bf16, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_flat_bf16_k0_silu_mul", "flat_bf16_k0_silu_mul", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-1, -2};
constexpr std::int64_t dims_2_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"g", "bf16[N, M]", kDLBfloat, 16, 2, dims_0_},
  {"u", "bf16[N, M]", kDLBfloat, 16, 2, dims_1_},
  {"output", "bf16[N, M]", kDLBfloat, 16, 2, dims_2_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"flat_bf16", params_, 3, 1, variables_, 2, nullptr, 0, kDLCUDA};

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
  const bf16* const g = static_cast<const bf16*>(data_[0]);
  const bf16* const u = static_cast<const bf16*>(data_[1]);
  bf16* const output = static_cast<bf16*>(data_[2]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // flat_bf16_k0_silu_mul
    const index_t argument3_ = M;
    const index_t argument4_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&g)),
        const_cast<void*>(static_cast<const void*>(&u)), const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument3_)),
        const_cast<void*>(static_cast<const void*>(&argument4_))};
    call_.launch(0, ((M * N + 2047) / 2048), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(flat_bf16, tilefoundry::entry_function);
