// image 0
#define TILEFOUNDRY_USE_ASYNC
#define TILEFOUNDRY_USE_ELEMENTWISE
#define TILEFOUNDRY_USE_REDUCE
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<512>>{};
}
[[maybe_unused]] constexpr int program_threads = 512;

extern "C" __device__ unsigned char kernel_wide_softmax_k0_reduce_exp_sub_shared_kib[64] = {};
static CUTE_DEVICE void kernel_wide_softmax_k0_reduce_exp_sub_work(const bf16* __restrict__ const x,
    bf16* __restrict__ const output) {
  // wide = tf.cast(x, dtype=f32): f32[64, 32768]
  // row_max = tf.reduce(wide, axes=(1), keepdim=True, kind=max): f32[64, 1]
  // shifted = tf.sub(wide, row_max): f32[64, 32768]
  // weight = tf.exp(shifted): f32[64, 32768]
  // row_sum = tf.reduce(weight, axes=(1), keepdim=True, kind=sum): f32[64, 1]
  // row = tf.div(weight, row_sum): f32[64, 32768]
  // v0 = tf.cast(row, dtype=bf16): bf16[64, 32768]
  // with Mesh(cta, thread: block=64, row=1, lane=512) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 512;
    const index_t item = index_t(program_id<TopologyScope::cta>());
    f32 row_max_total = ops::max_op::identity<f32>();
    TILEFOUNDRY_DYNAMIC_SHARED(stage_);
    const ops::StagedPacks<detail::Pack<bf16, V_>, 512> pack0_stage_(stage_, lane);
    CUTE_UNROLL
    for (int piece_ = 0; piece_ < 64 / V_; ++piece_) {
      const index_t first = (piece_ * 512 + lane) * V_;
      pack0_stage_.fetch(piece_, reinterpret_cast<detail::Pack<bf16, V_> const*>(x + first + item * 32768));
    }
    ops::cp_async_commit();
    ops::cp_async_wait();
    CUTE_UNROLL
    for (int piece_ = 0; piece_ < 64 / V_; ++piece_) {
      const index_t first = (piece_ * 512 + lane) * V_;
      auto const pack0_ = pack0_stage_[piece_];
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j = first + slot;
        const f32 x_at = widen(pack0_.value[slot]);
        const f32 wide = convert<f32>(x_at);
        row_max_total = ops::max_op::join(row_max_total, wide);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<1>, cute::Int<512>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<512>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<1>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&row_max_total, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::max_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::max_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::max_op, ops::axes<>>(parts_, own_, workspace_);
    }
    f32 row_sum_total = ops::sum_op::identity<f32>();
    CUTE_UNROLL
    for (int piece_ = 0; piece_ < 64 / V_; ++piece_) {
      const index_t first = (piece_ * 512 + lane) * V_;
      auto const pack0_ = pack0_stage_[piece_];
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j_2 = first + slot;
        const f32 x_at_2 = widen(pack0_.value[slot]);
        const f32 wide_2 = convert<f32>(x_at_2);
        const f32 shifted = wide_2 - row_max_total;
        const f32 weight = ops::approximate<ops::exp_op>{}(shifted);
        row_sum_total = ops::sum_op::join(row_sum_total, weight);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<1>, cute::Int<512>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<512>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<1>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&row_sum_total, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::sum_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::sum_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::sum_op, ops::axes<>>(parts_, own_, workspace_);
    }
    const f32 reciprocal = 1.0f / row_sum_total;
    CUTE_UNROLL
    for (int piece_ = 0; piece_ < 64 / V_; ++piece_) {
      const index_t first = (piece_ * 512 + lane) * V_;
      auto const pack0_ = pack0_stage_[piece_];
      detail::Pack<bf16, V_> pack1_;
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j_3 = first + slot;
        const f32 x_at_3 = widen(pack0_.value[slot]);
        const f32 wide_3 = convert<f32>(x_at_3);
        const f32 shifted_2 = wide_3 - row_max_total;
        const f32 weight_2 = ops::approximate<ops::exp_op>{}(shifted_2);
        const f32 row = weight_2 * reciprocal;
        const f32 v0 = widen(convert<bf16>(row));
        pack1_.value[slot] = convert<bf16>(row);
      }
      *reinterpret_cast<detail::Pack<bf16, V_>*>(output + first + item * 32768) = pack1_;
    }
  };
  if (detail::is_aligned<16>(x) && detail::is_aligned<16>(output)) {
    body_(cute::Int<8>{});
  }
  else {
    constexpr int V_ = 1;
    const index_t lane = program_id<TopologyScope::thread>() % 512;
    const index_t item = index_t(program_id<TopologyScope::cta>());
    f32 row_max_total_2 = ops::max_op::identity<f32>();
    for (index_t first_2 = lane * V_; first_2 < 32768; first_2 += 512 * V_) {
      detail::Pack<bf16, V_> pack0_;
      pack0_ = *reinterpret_cast<detail::Pack<bf16, V_> const*>(x + first_2 + item * 32768);
      CUTE_UNROLL
      for (int slot_2 = 0; slot_2 < V_; ++slot_2) {
        const index_t j_4 = first_2 + slot_2;
        const f32 x_at_4 = widen(pack0_.value[slot_2]);
        const f32 wide_4 = convert<f32>(x_at_4);
        row_max_total_2 = ops::max_op::join(row_max_total_2, wide_4);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<1>, cute::Int<512>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<512>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<1>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&row_max_total_2, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::max_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::max_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::max_op, ops::axes<>>(parts_, own_, workspace_);
    }
    f32 row_sum_total_2 = ops::sum_op::identity<f32>();
    for (index_t first_2 = lane * V_; first_2 < 32768; first_2 += 512 * V_) {
      detail::Pack<bf16, V_> pack1_;
      pack1_ = *reinterpret_cast<detail::Pack<bf16, V_> const*>(x + first_2 + item * 32768);
      CUTE_UNROLL
      for (int slot_2 = 0; slot_2 < V_; ++slot_2) {
        const index_t j_5 = first_2 + slot_2;
        const f32 x_at_5 = widen(pack1_.value[slot_2]);
        const f32 wide_5 = convert<f32>(x_at_5);
        const f32 shifted_3 = wide_5 - row_max_total_2;
        const f32 weight_3 = ops::approximate<ops::exp_op>{}(shifted_3);
        row_sum_total_2 = ops::sum_op::join(row_sum_total_2, weight_3);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<1>, cute::Int<512>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<512>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<1>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&row_sum_total_2, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::sum_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::sum_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::sum_op, ops::axes<>>(parts_, own_, workspace_);
    }
    const f32 reciprocal_2 = 1.0f / row_sum_total_2;
    for (index_t first_2 = lane * V_; first_2 < 32768; first_2 += 512 * V_) {
      detail::Pack<bf16, V_> pack2_;
      pack2_ = detail::load_streaming(reinterpret_cast<detail::Pack<bf16,
          V_> const*>(x + first_2 + item * 32768));
      detail::Pack<bf16, V_> pack3_;
      CUTE_UNROLL
      for (int slot_2 = 0; slot_2 < V_; ++slot_2) {
        const index_t j_6 = first_2 + slot_2;
        const f32 x_at_6 = widen(pack2_.value[slot_2]);
        const f32 wide_6 = convert<f32>(x_at_6);
        const f32 shifted_4 = wide_6 - row_max_total_2;
        const f32 weight_4 = ops::approximate<ops::exp_op>{}(shifted_4);
        const f32 row_2 = weight_4 * reciprocal_2;
        const f32 v0_2 = widen(convert<bf16>(row_2));
        pack3_.value[slot_2] = convert<bf16>(row_2);
      }
      detail::store_streaming(reinterpret_cast<detail::Pack<bf16, V_>*>(output + first_2 + item * 32768),
          pack3_);
    }
  }
}
extern "C" __global__ void __launch_bounds__(512) kernel_wide_softmax_k0_reduce_exp_sub(const bf16* const x,
    bf16* const output) {
  await_earlier_launches();
  kernel_wide_softmax_k0_reduce_exp_sub_work(x, output);
}

}  // namespace tilefoundry

// host
// wide_softmax.wide_softmax, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_wide_softmax_k0_reduce_exp_sub", "wide_softmax_k0_reduce_exp_sub", 0, 512,
      "kernel_wide_softmax_k0_reduce_exp_sub_shared_kib", false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {INT64_C(64), INT64_C(32768)};
constexpr std::int64_t dims_1_[] = {INT64_C(64), INT64_C(32768)};
constexpr host::Param params_[] = {
  {"x", "bf16[64, 32768]", kDLBfloat, 16, 2, dims_0_},
  {"output", "bf16[64, 32768]", kDLBfloat, 16, 2, dims_1_},
};
constexpr host::Declaration declaration_ = {"wide_softmax", params_, 2, 1, nullptr, 0, nullptr, 0, kDLCUDA};

void entry_function(host::Arguments const& arguments_) {
  void* data_[2];
  DLTensor const* tensors_[2];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  if (host::nothing_to_write(declaration_, bound_)) return;
  const bf16* const x = static_cast<const bf16*>(data_[0]);
  bf16* const output = static_cast<bf16*>(data_[1]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // wide_softmax_k0_reduce_exp_sub
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&output))};
    call_.launch(0, 64, args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(wide_softmax, tilefoundry::entry_function);
