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

static CUTE_DEVICE void kernel_several_k0_reduce_work(const i32* __restrict__ const x,
    i32* __restrict__ const output0, const index_t M, const index_t N) {
  // v0 = tf.reduce(x, axes=(1), keepdim=True, kind=sum): i32[N, 1]
  // with Mesh(cta, thread: block=((N + 1) // 2), row=2, lane=128) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 128;
    const index_t own_item = index_t(program_id<TopologyScope::cta>()) * 2 +
        program_id<TopologyScope::thread>() / 128;
    const bool live = own_item < N;
    const index_t item = live ? own_item : (N - 1);
    i64 v0_total = ops::sum_op::identity<i64>();
    for (index_t first = lane * V_; first < M; first += 128 * V_) {
      detail::Pack<i32, V_> pack0_;
      pack0_ = *reinterpret_cast<detail::Pack<i32, V_> const*>(x + M * item + first);
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j = first + slot;
        const i32 x_at = pack0_.value[slot];
        v0_total = ops::sum_op::join(v0_total, convert<i64>(x_at));
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<2>, cute::Int<128>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<128>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<2>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&v0_total, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::sum_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::sum_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::sum_op, ops::axes<>>(parts_, own_, workspace_);
    }
    const i32 v0 = convert<i32>(v0_total);
    if (live) {
      if (lane == 0) {
        output0[item] = v0;
      }
    }
  };
  if (detail::is_aligned<16>(x) && (M) % 4 == 0) {
    body_(cute::Int<4>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_several_k0_reduce(const i32* const x,
    i32* const output0, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_several_k0_reduce_work(x, output0, M, N);
}

static CUTE_DEVICE void kernel_several_k1_reduce_work(const i32* __restrict__ const x,
    i32* __restrict__ const output1, const index_t M, const index_t N) {
  // v1 = tf.reduce(x, axes=(1), keepdim=True, kind=max): i32[N, 1]
  // with Mesh(cta, thread: block=((N + 1) // 2), row=2, lane=128) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 128;
    const index_t own_item = index_t(program_id<TopologyScope::cta>()) * 2 +
        program_id<TopologyScope::thread>() / 128;
    const bool live = own_item < N;
    const index_t item = live ? own_item : (N - 1);
    i64 v1_total = ops::max_op::identity<i64>();
    for (index_t first = lane * V_; first < M; first += 128 * V_) {
      detail::Pack<i32, V_> pack0_;
      pack0_ = *reinterpret_cast<detail::Pack<i32, V_> const*>(x + M * item + first);
      CUTE_UNROLL
      for (int slot = 0; slot < V_; ++slot) {
        const index_t j = first + slot;
        const i32 x_at = pack0_.value[slot];
        v1_total = ops::max_op::join(v1_total, convert<i64>(x_at));
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<2>, cute::Int<128>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<128>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<2>, cute::Int<1>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&v1_total, cute::make_layout(cute::Shape<cute::Int<1>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::S<0>, shard::P<ops::max_op>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::max_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::max_op, ops::axes<>>(parts_, own_, workspace_);
    }
    const i32 v1 = convert<i32>(v1_total);
    if (live) {
      if (lane == 0) {
        output1[item] = v1;
      }
    }
  };
  if (detail::is_aligned<16>(x) && (M) % 4 == 0) {
    body_(cute::Int<4>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_several_k1_reduce(const i32* const x,
    i32* const output1, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_several_k1_reduce_work(x, output1, M, N);
}

static CUTE_DEVICE void kernel_several_k2_neg_work(const i32* __restrict__ const x,
    i32* __restrict__ const output2, const index_t M, const index_t N) {
  // v2 = tf.neg(x): i32[N, M]
  // with Mesh(cta, thread: block=((M * N + 1023) // 1024), lane=256) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 256;
    const index_t item = index_t(program_id<TopologyScope::cta>());
    if constexpr (V_ > 1) {
      detail::Pack<i32, V_> pack0_[4 / V_];
      CUTE_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = item * 1024 + (piece_ * 256 + lane) * V_;
        if (first < M * N) {
          pack0_[piece_] = *reinterpret_cast<detail::Pack<i32, V_> const*>(x + first);
        }
      }
      CUTE_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = item * 1024 + (piece_ * 256 + lane) * V_;
        if (first < M * N) {
          detail::Pack<i32, V_> pack1_;
          CUTE_UNROLL
          for (int slot = 0; slot < V_; ++slot) {
            const index_t j = first + slot;
            const i32 x_at = pack0_[piece_].value[slot];
            const i32 v2 = ops::neg_op{}(x_at);
            pack1_.value[slot] = v2;
          }
          *reinterpret_cast<detail::Pack<i32, V_>*>(output2 + first) = pack1_;
        }
      }
    }
    else {
      CUTE_NO_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = item * 1024 + (piece_ * 256 + lane) * V_;
        if (first < M * N) {
          detail::Pack<i32, V_> pack0_;
          pack0_ = *reinterpret_cast<detail::Pack<i32, V_> const*>(x + first);
          detail::Pack<i32, V_> pack1_;
          CUTE_UNROLL
          for (int slot = 0; slot < V_; ++slot) {
            const index_t j = first + slot;
            const i32 x_at = pack0_.value[slot];
            const i32 v2 = ops::neg_op{}(x_at);
            pack1_.value[slot] = v2;
          }
          *reinterpret_cast<detail::Pack<i32, V_>*>(output2 + first) = pack1_;
        }
      }
    }
  };
  if (detail::is_aligned<16>(x) && detail::is_aligned<16>(output2) && (M) % 4 == 0 && (M * N) % 4 == 0) {
    body_(cute::Int<4>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_several_k2_neg(const i32* const x, i32* const output2,
    const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_several_k2_neg_work(x, output2, M, N);
}

}  // namespace tilefoundry

// host
// several.several, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_several_k0_reduce", "several_k0_reduce", 0, 256, nullptr, false, true},
  {"kernel_several_k1_reduce", "several_k1_reduce", 0, 256, nullptr, false, true},
  {"kernel_several_k2_neg", "several_k2_neg", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-1, INT64_C(1)};
constexpr std::int64_t dims_2_[] = {-1, INT64_C(1)};
constexpr std::int64_t dims_3_[] = {-1, -2};
constexpr host::Param params_[] = {
  {"x", "i32[N, M]", kDLInt, 32, 2, dims_0_},
  {"output0", "i32[N, 1]", kDLInt, 32, 2, dims_1_},
  {"output1", "i32[N, 1]", kDLInt, 32, 2, dims_2_},
  {"output2", "i32[N, M]", kDLInt, 32, 2, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"several", params_, 4, 3, variables_, 2, nullptr, 0, kDLCUDA};

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
  const i32* const x = static_cast<const i32*>(data_[0]);
  i32* const output0 = static_cast<i32*>(data_[1]);
  i32* const output1 = static_cast<i32*>(data_[2]);
  i32* const output2 = static_cast<i32*>(data_[3]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // several_k0_reduce
    const index_t argument2_ = M;
    const index_t argument3_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&output0)),
        const_cast<void*>(static_cast<const void*>(&argument2_)),
        const_cast<void*>(static_cast<const void*>(&argument3_))};
    call_.launch(0, ((N + 1) / 2), args_);
  }
  {
    // several_k1_reduce
    const index_t argument2_ = M;
    const index_t argument3_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&output1)),
        const_cast<void*>(static_cast<const void*>(&argument2_)),
        const_cast<void*>(static_cast<const void*>(&argument3_))};
    call_.launch(1, ((N + 1) / 2), args_);
  }
  {
    // several_k2_neg
    const index_t argument2_ = M;
    const index_t argument3_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&output2)),
        const_cast<void*>(static_cast<const void*>(&argument2_)),
        const_cast<void*>(static_cast<const void*>(&argument3_))};
    call_.launch(2, ((M * N + 1023) / 1024), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(several, tilefoundry::entry_function);
