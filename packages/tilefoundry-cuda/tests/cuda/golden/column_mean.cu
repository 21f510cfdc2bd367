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

static CUTE_DEVICE void kernel_column_mean_k0_reduce_work(const f32* __restrict__ const x,
    f32* __restrict__ const output, const index_t M, const index_t N) {
  // v0 = tf.reduce(x, axes=(0), keepdim=False, kind=mean): f32[M]
  // with Mesh(cta, thread: block=((M + 127) // 128), group=8, lane=32) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t item = program_id<TopologyScope::cta>();
    const index_t column_lane = program_id<TopologyScope::thread>() % 32;
    const index_t group = program_id<TopologyScope::thread>() / 32;
    f32 v0_columns[4];
    CUTE_UNROLL
    for (int i_ = 0; i_ < 4; ++i_) v0_columns[i_] = 0.0f;
    for (index_t turn = group; turn < N; turn += 8) {
      if constexpr (V_ > 1) {
        detail::Pack<f32, V_> pack0_[4 / V_];
        CUTE_UNROLL
        for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
          const index_t first = item * 128 + (piece_ * 32 + column_lane) * V_;
          if (first < M) {
            pack0_[piece_] = *reinterpret_cast<detail::Pack<f32, V_> const*>(x + M * turn + first);
          }
        }
        CUTE_UNROLL
        for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
          const index_t first = item * 128 + (piece_ * 32 + column_lane) * V_;
          if (first < M) {
            CUTE_UNROLL
            for (int slot = 0; slot < V_; ++slot) {
              const index_t c = first + slot;
              const f32 x_at = pack0_[piece_].value[slot];
              v0_columns[piece_ * V_ + slot] = v0_columns[piece_ * V_ + slot] + x_at;
            }
          }
        }
      }
      else {
        CUTE_NO_UNROLL
        for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
          const index_t first = item * 128 + (piece_ * 32 + column_lane) * V_;
          if (first < M) {
            detail::Pack<f32, V_> pack0_;
            pack0_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(x + M * turn + first);
            CUTE_UNROLL
            for (int slot = 0; slot < V_; ++slot) {
              const index_t c = first + slot;
              const f32 x_at = pack0_.value[slot];
              v0_columns[piece_ * V_ + slot] = v0_columns[piece_ * V_ + slot] + x_at;
            }
          }
        }
      }
    }
    {
      using MeshShape_ = cute::Shape<cute::Int<8>, cute::Int<32>>;
      using Mesh_ = cute::Layout<MeshShape_, cute::Stride<cute::Int<32>, cute::_1>>;
      using PartsShape_ = cute::Shape<cute::Int<32>, cute::Int<4>>;
      using Parts_ = cute::Layout<PartsShape_, cute::Stride<cute::_0, cute::_1>>;
      auto own_ = cute::make_tensor(&v0_columns[0], cute::make_layout(cute::Shape<cute::Int<4>>{}));
      auto const mesh_ = make_mesh<TopologyScope::thread>(Mesh_{});
      auto const layout_ = make_shard_layout(Parts_{}, cute::tuple<shard::P<ops::sum_op>, shard::S<0>>{},
          mesh_);
      auto const parts_ = make_shard_tensor(own_, Parts_{}, layout_);
      constexpr int bytes_ = ops::reduce_workspace_bytes<ops::sum_op, ops::axes<>, decltype(parts_),
          decltype(own_)>();
      alignas(16) __shared__ unsigned char workspace_[bytes_ > 0 ? bytes_ : 16];
      ops::reduce<ops::sum_op, ops::axes<>>(parts_, own_, workspace_);
    }
    f32 v0_final[4];
    CUTE_UNROLL
    for (index_t c_2 = 0; c_2 < 4; ++c_2) {
      v0_final[c_2] = v0_columns[c_2] / convert<f32>(N);
    }
    if (group == 0) {
      if constexpr (V_ > 1) {
        CUTE_UNROLL
        for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
          const index_t first = item * 128 + (piece_ * 32 + column_lane) * V_;
          if (first < M) {
            detail::Pack<f32, V_> pack1_;
            CUTE_UNROLL
            for (int slot = 0; slot < V_; ++slot) {
              const index_t c_3 = first + slot;
              pack1_.value[slot] = v0_final[piece_ * V_ + slot];
            }
            *reinterpret_cast<detail::Pack<f32, V_>*>(output + first) = pack1_;
          }
        }
      }
      else {
        CUTE_NO_UNROLL
        for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
          const index_t first = item * 128 + (piece_ * 32 + column_lane) * V_;
          if (first < M) {
            detail::Pack<f32, V_> pack1_;
            CUTE_UNROLL
            for (int slot = 0; slot < V_; ++slot) {
              const index_t c_3 = first + slot;
              pack1_.value[slot] = v0_final[piece_ * V_ + slot];
            }
            *reinterpret_cast<detail::Pack<f32, V_>*>(output + first) = pack1_;
          }
        }
      }
    }
  };
  if (detail::is_aligned<16>(x) && detail::is_aligned<16>(output) && (M) % 4 == 0 && (M) % 4 == 0) {
    body_(cute::Int<4>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_column_mean_k0_reduce(const f32* const x,
    f32* const output, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_column_mean_k0_reduce_work(x, output, M, N);
}

}  // namespace tilefoundry

// host
// column_mean.column_mean, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_column_mean_k0_reduce", "column_mean_k0_reduce", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {-1, -2};
constexpr std::int64_t dims_1_[] = {-2};
constexpr host::Param params_[] = {
  {"x", "f32[N, M]", kDLFloat, 32, 2, dims_0_},
  {"output", "f32[M]", kDLFloat, 32, 1, dims_1_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"column_mean", params_, 2, 1, variables_, 2, nullptr, 0, kDLCUDA};

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
    // column_mean_k0_reduce
    const index_t argument2_ = M;
    const index_t argument3_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&x)),
        const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument2_)),
        const_cast<void*>(static_cast<const void*>(&argument3_))};
    call_.launch(0, ((M + 127) / 128), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(column_mean, tilefoundry::entry_function);
