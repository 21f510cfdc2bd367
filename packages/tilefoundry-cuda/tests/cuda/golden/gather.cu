// image 0
#define TILEFOUNDRY_USE_ELEMENTWISE
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<256>>{};
}
[[maybe_unused]] constexpr int program_threads = 256;

static CUTE_DEVICE void kernel_gather_k0_index_select_add_work(const f32* __restrict__ const table,
    const i64* __restrict__ const ids, const f32* __restrict__ const position, f32* __restrict__ const output,
    const index_t M, const index_t N) {
  // v0 = tf.index_select(table, ids, dim=0): f32[N, M, 16]
  // v1 = tf.add(v0, position): f32[N, M, 16]
  const IndexFault fault{"index_select"};
  // with Mesh(cta, thread: block=((M * N + 63) // 64), row=64, lane=4) as m:
  auto const body_ = [&](auto width_) {
    constexpr int V_ = decltype(width_)::value;
    const index_t lane = program_id<TopologyScope::thread>() % 4;
    const index_t own_item = index_t(program_id<TopologyScope::cta>()) * 64 +
        program_id<TopologyScope::thread>() / 4;
    const bool live = own_item < (M * N);
    const index_t item = live ? own_item : (M * N - 1);
    const index_t i = item % M;
    const index_t i_2 = item / M;
    const index_t ids_at = ids[M * i_2 + i];
    const index_t v0_row = fault.bounded(ids_at, 100);
    if constexpr (V_ > 1) {
      CUTE_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = (piece_ * 4 + lane) * V_;
        detail::Pack<f32, V_> pack0_;
        pack0_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(table + first + v0_row * 16);
        detail::Pack<f32, V_> pack1_;
        pack1_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(position + first + i * 16);
        detail::Pack<f32, V_> pack2_;
        CUTE_UNROLL
        for (int slot = 0; slot < V_; ++slot) {
          const index_t j = first + slot;
          const f32 table_at = pack0_.value[slot];
          const f32 position_at = pack1_.value[slot];
          const f32 v1 = table_at + position_at;
          pack2_.value[slot] = v1;
        }
        if (live) {
          *reinterpret_cast<detail::Pack<f32, V_>*>(output + M * i_2 * 16 + first + i * 16) = pack2_;
        }
      }
    }
    else {
      CUTE_NO_UNROLL
      for (int piece_ = 0; piece_ < 4 / V_; ++piece_) {
        const index_t first = (piece_ * 4 + lane) * V_;
        detail::Pack<f32, V_> pack0_;
        pack0_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(table + first + v0_row * 16);
        detail::Pack<f32, V_> pack1_;
        pack1_ = *reinterpret_cast<detail::Pack<f32, V_> const*>(position + first + i * 16);
        detail::Pack<f32, V_> pack2_;
        CUTE_UNROLL
        for (int slot = 0; slot < V_; ++slot) {
          const index_t j = first + slot;
          const f32 table_at = pack0_.value[slot];
          const f32 position_at = pack1_.value[slot];
          const f32 v1 = table_at + position_at;
          pack2_.value[slot] = v1;
        }
        if (live) {
          *reinterpret_cast<detail::Pack<f32, V_>*>(output + M * i_2 * 16 + first + i * 16) = pack2_;
        }
      }
    }
  };
  if (detail::is_aligned<16>(table) && detail::is_aligned<16>(position) && detail::is_aligned<16>(output) && (M
      * 16) % 4 == 0) {
    body_(cute::Int<4>{});
  }
  else {
    body_(cute::Int<1>{});
  }
}
extern "C" __global__ void __launch_bounds__(256) kernel_gather_k0_index_select_add(const f32* const table,
    const i64* const ids, const f32* const position, f32* const output, const index_t M, const index_t N) {
  await_earlier_launches();
  kernel_gather_k0_index_select_add_work(table, ids, position, output, M, N);
}

}  // namespace tilefoundry

// host
// gather.gather, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_gather_k0_index_select_add", "gather_k0_index_select_add", 0, 256, nullptr, false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {INT64_C(100), INT64_C(16)};
constexpr std::int64_t dims_1_[] = {-1, -2};
constexpr std::int64_t dims_2_[] = {-2, INT64_C(16)};
constexpr std::int64_t dims_3_[] = {-1, -2, INT64_C(16)};
constexpr host::Param params_[] = {
  {"table", "f32[100, 16]", kDLFloat, 32, 2, dims_0_},
  {"ids", "i64[N, M]", kDLInt, 64, 2, dims_1_},
  {"position", "f32[M, 16]", kDLFloat, 32, 2, dims_2_},
  {"output", "f32[N, M, 16]", kDLFloat, 32, 3, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
  {"M", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"gather", params_, 4, 1, variables_, 2, nullptr, 0, kDLCUDA};

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
  const f32* const table = static_cast<const f32*>(data_[0]);
  const i64* const ids = static_cast<const i64*>(data_[1]);
  const f32* const position = static_cast<const f32*>(data_[2]);
  f32* const output = static_cast<f32*>(data_[3]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // gather_k0_index_select_add
    const index_t argument4_ = M;
    const index_t argument5_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&table)),
        const_cast<void*>(static_cast<const void*>(&ids)),
        const_cast<void*>(static_cast<const void*>(&position)),
        const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument4_)),
        const_cast<void*>(static_cast<const void*>(&argument5_))};
    call_.launch(0, ((M * N + 63) / 64), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(gather, tilefoundry::entry_function);
