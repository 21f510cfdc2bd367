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

static CUTE_DEVICE void kernel_softmax_k0_reduce_exp_sub_work(const f32* __restrict__ const x,
    f32* __restrict__ const output, const index_t M, const index_t N) {
  // row_max = tf.reduce(x, axes=(1), keepdim=True, kind=max): f32[N, 1]
  // shifted = tf.sub(x, row_max): f32[N, M]
  // weight = tf.exp(shifted): f32[N, M]
  // row_sum = tf.reduce(weight, axes=(1), keepdim=True, kind=sum): f32[N, 1]
  // v0 = tf.div(weight, row_sum): f32[N, M]
  // with Mesh(cta, thread: block=((N + 1) // 2), row=2, lane=128) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 128;
    const index_t own_item = index_t(program_id<TopologyScope::cta>()) * 2 +
        program_id<TopologyScope::thread>() / 128;
    const bool live = own_item < N;
    const index_t item = live ? own_item : (N - 1);
    f32 row_max_total = ops::max_op::identity<f32>();
    for (index_t first = lane * V_; first < M; first += 128 * V_) {
      detail::Pack<f32, V_> pack0_;
      pack0_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(x + M * item + first);
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j = first + slot;
        const f32 x_at = pack0_.value[slot];
        row_max_total = ops::max_op::join(row_max_total, x_at);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<2>, cute::Int<128>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<128>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<2>, cute::Int<1>>;
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
    for (index_t first = lane * V_; first < M; first += 128 * V_) {
      detail::Pack<f32, V_> pack1_;
      pack1_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(x + M * item + first);
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j_2 = first + slot;
        const f32 x_at_2 = pack1_.value[slot];
        const f32 shifted = x_at_2 - row_max_total;
        const f32 weight = ops::exp_op{}(shifted);
        row_sum_total = ops::sum_op::join(row_sum_total, weight);
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<2>, cute::Int<128>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<128>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<2>, cute::Int<1>>;
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
    for (index_t first = lane * V_; first < M; first += 128 * V_) {
      detail::Pack<f32, V_> pack2_;
      pack2_ = detail::load_streaming(reinterpret_cast<detail::Pack<f32, V_> const*>(x + M * item + first));
      detail::Pack<f32, V_> pack3_;
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j_3 = first + slot;
        const f32 x_at_3 = pack2_.value[slot];
        const f32 shifted_2 = x_at_3 - row_max_total;
        const f32 weight_2 = ops::exp_op{}(shifted_2);
        const f32 v0 = weight_2 * reciprocal;
        pack3_.value[slot] = v0;
      }
      if (live) {
        detail::store_streaming(reinterpret_cast<detail::Pack<f32, V_>*>(output + M * item + first), pack3_);
      }
    }
  };
  if (detail::is_aligned<16>(x) && detail::is_aligned<16>(output) && (M) % 4 == 0) {
    body_(cute::Int<4>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_softmax_k0_reduce_exp_sub(const f32* const x,
    f32* const output, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_softmax_k0_reduce_exp_sub_work(x, output, M, N);
}

}  // namespace tilefoundry

// host
// softmax.softmax, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_softmax_k0_reduce_exp_sub", "softmax_k0_reduce_exp_sub", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "f32[N, M]", kDLFloat, 32, 2, dims_0_},
  {"output", "f32[N, M]", kDLFloat, 32, 2, dims_1_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"softmax", params_, 2, 1, variables_, 2, nullptr, 0, kDLCUDA};

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
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // softmax_k0_reduce_exp_sub
    const index_t argument2_ = M;
    const index_t argument3_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument2_)),
        const_cast<void*>(static_cast<const void*>(&argument3_))};
    call_.launch(0, ((N + 1) / 2), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(softmax, tilefoundry::entry_function);
