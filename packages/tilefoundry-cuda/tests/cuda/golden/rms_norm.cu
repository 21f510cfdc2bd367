// image 0
#define TILEFOUNDRY_USE_ELEMENTWISE
#define TILEFOUNDRY_USE_REDUCE
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<256>>{};
}
[[maybe_unused]] constexpr int program_threads = 256;

static CUTE_DEVICE void kernel_rms_norm_k0_square_reduce_rsqrt_work(const bf16* __restrict__ const x,
    const bf16* __restrict__ const w, bf16* __restrict__ const output, const index_t N) {
  // wide = tf.cast(x, dtype=f32): f32[N, 256]
  // wide_2 = tf.cast(w, dtype=f32): f32[256]
  // squared = tf.square(wide): f32[N, 256]
  // mean_square = tf.reduce(squared, axes=(1), keepdim=True, kind=mean): f32[N, 1]
  // shifted = tf.add(mean_square, 1e-06): f32[N, 1]
  // scale = tf.rsqrt(shifted): f32[N, 1]
  // row = tf.mul(wide, scale): f32[N, 256]
  // row_2 = tf.mul(row, wide_2): f32[N, 256]
  // v0 = tf.cast(row_2, dtype=bf16): bf16[N, 256]
  // with Mesh(cta, thread: block=((N + 7) // 8), row=8, lane=32) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 32;
    const index_t own_item = index_t(program_id<TopologyScope::cta>()) * 8 +
        program_id<TopologyScope::thread>() / 32;
    const bool live = own_item < N;
    const index_t item = live ? own_item : (N - 1);
    f32 mean_square_total = ops::sum_op::identity<f32>();
    detail::Pack<bf16, V_> pack0_[8 / V_];
    detail::Pack<bf16, V_> pack1_[8 / V_];
    CUTE_UNROLL
    for (int piece_ = 0; piece_ < 8 / V_; ++piece_) {
      const index_t first = (piece_ * 32 + lane) * V_;
      pack0_[piece_] = *reinterpret_cast<detail::Pack<bf16, V_> const*>(x + first + item * 256);
      pack1_[piece_] = detail::load_early(reinterpret_cast<detail::Pack<bf16, V_> const*>(w + first));
    }
    CUTE_UNROLL
    for (int piece_ = 0; piece_ < 8 / V_; ++piece_) {
      const index_t first = (piece_ * 32 + lane) * V_;
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j = first + slot;
        const f32 x_at = widen(pack0_[piece_].value[slot]);
        const f32 wide = convert<f32>(x_at);
        const f32 squared = ops::square_op{}(wide);
        mean_square_total = ops::sum_op::join(mean_square_total, squared);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<8>, cute::Int<32>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<32>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<8>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&mean_square_total, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::sum_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::sum_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::sum_op, ops::axes<>>(parts_, own_, workspace_);
    }
    const f32 mean_square = mean_square_total / convert<f32>(256);
    const f32 shifted = mean_square + 1e-06f;
    const f32 scale = ops::rsqrt_op{}(shifted);
    CUTE_UNROLL
    for (auto& held_ : pack0_) detail::stay_packed(held_);
    CUTE_UNROLL
    for (int piece_ = 0; piece_ < 8 / V_; ++piece_) {
      const index_t first = (piece_ * 32 + lane) * V_;
      detail::Pack<bf16, V_> pack2_;
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j_2 = first + slot;
        const f32 x_at_2 = widen(pack0_[piece_].value[slot]);
        const f32 wide_2 = convert<f32>(x_at_2);
        const f32 row = wide_2 * scale;
        const f32 w_at = widen(pack1_[piece_].value[slot]);
        const f32 wide_2_2 = convert<f32>(w_at);
        const f32 row_2 = row * wide_2_2;
        const f32 v0 = widen(convert<bf16>(row_2));
        pack2_.value[slot] = convert<bf16>(row_2);
      }
      if (live) {
        *reinterpret_cast<detail::Pack<bf16, V_>*>(output + first + item * 256) = pack2_;
      }
    }
  };
  if (detail::is_aligned<16>(x) && detail::is_aligned<16>(w) && detail::is_aligned<16>(output)) {
    body_(cute::Int<8>{});
  }
  else {
    constexpr int V_ = 1;
    const index_t lane = program_id<TopologyScope::thread>() % 32;
    const index_t own_item_2 = index_t(program_id<TopologyScope::cta>()) * 8 +
        program_id<TopologyScope::thread>() / 32;
    const bool live_2 = own_item_2 < N;
    const index_t item = live_2 ? own_item_2 : (N - 1);
    f32 mean_square_total_2 = ops::sum_op::identity<f32>();
    for (index_t first_2 = lane * V_; first_2 < 256; first_2 += 32 * V_) {
      detail::Pack<bf16, V_> pack0_;
      pack0_ = *reinterpret_cast<detail::Pack<bf16, V_> const*>(x + first_2 + item * 256);
      CUTE_UNROLL
      for (int slot_2 = 0; slot_2 < V_; ++slot_2) {
        const index_t j_3 = first_2 + slot_2;
        const f32 x_at_3 = widen(pack0_.value[slot_2]);
        const f32 wide_3 = convert<f32>(x_at_3);
        const f32 squared_2 = ops::square_op{}(wide_3);
        mean_square_total_2 = ops::sum_op::join(mean_square_total_2, squared_2);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<8>, cute::Int<32>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<32>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<8>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&mean_square_total_2, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::sum_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::sum_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::sum_op, ops::axes<>>(parts_, own_, workspace_);
    }
    const f32 mean_square_2 = mean_square_total_2 / convert<f32>(256);
    const f32 shifted_2 = mean_square_2 + 1e-06f;
    const f32 scale_2 = ops::rsqrt_op{}(shifted_2);
    for (index_t first_2 = lane * V_; first_2 < 256; first_2 += 32 * V_) {
      detail::Pack<bf16, V_> pack1_;
      pack1_ = detail::load_streaming(reinterpret_cast<detail::Pack<bf16,
          V_> const*>(x + first_2 + item * 256));
      detail::Pack<bf16, V_> pack2_;
      pack2_ = *reinterpret_cast<detail::Pack<bf16, V_> const*>(w + first_2);
      detail::Pack<bf16, V_> pack3_;
      CUTE_UNROLL
      for (int slot_2 = 0; slot_2 < V_; ++slot_2) {
        const index_t j_4 = first_2 + slot_2;
        const f32 x_at_4 = widen(pack1_.value[slot_2]);
        const f32 wide_4 = convert<f32>(x_at_4);
        const f32 row_3 = wide_4 * scale_2;
        const f32 w_at_2 = widen(pack2_.value[slot_2]);
        const f32 wide_2_3 = convert<f32>(w_at_2);
        const f32 row_2_2 = row_3 * wide_2_3;
        const f32 v0_2 = widen(convert<bf16>(row_2_2));
        pack3_.value[slot_2] = convert<bf16>(row_2_2);
      }
      if (live_2) {
        detail::store_streaming(reinterpret_cast<detail::Pack<bf16, V_>*>(output + first_2 + item * 256),
            pack3_);
      }
    }
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_rms_norm_k0_square_reduce_rsqrt(const bf16* const x,
    const bf16* const w, bf16* const output, const index_t N) {
  await_earlier_launches();
  kernel_rms_norm_k0_square_reduce_rsqrt_work(x, w, output, N);
}

}  // namespace tilefoundry

// host
// rms_norm.rms_norm, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_rms_norm_k0_square_reduce_rsqrt", "rms_norm_k0_square_reduce_rsqrt", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, INT64_C(256)};
constexpr std::int64_t dims_1_[] = {INT64_C(256)};
constexpr std::int64_t dims_2_[] = {-1, INT64_C(256)};
constexpr host::Param params_[] = {
  {"x", "bf16[N, 256]", kDLBfloat, 16, 2, dims_0_},
  {"w", "bf16[256]", kDLBfloat, 16, 1, dims_1_},
  {"output", "bf16[N, 256]", kDLBfloat, 16, 2, dims_2_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"rms_norm", params_, 3, 1, variables_, 1, nullptr, 0, kDLCUDA};

void entry_function(host::Arguments const& arguments_) {
  void* data_[3];
  DLTensor const* tensors_[3];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const bf16* const x = static_cast<const bf16*>(data_[0]);
  const bf16* const w = static_cast<const bf16*>(data_[1]);
  bf16* const output = static_cast<bf16*>(data_[2]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // rms_norm_k0_square_reduce_rsqrt
    const index_t argument3_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&w)), const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument3_))};
    call_.launch(0, ((N + 7) / 8), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(rms_norm, tilefoundry::entry_function);
