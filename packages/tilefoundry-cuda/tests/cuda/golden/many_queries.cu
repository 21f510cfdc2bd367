// image 0
#define TILEFOUNDRY_USE_ATTENTION_TILES
#define TILEFOUNDRY_USE_ELEMENTWISE
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<384>>{};
}
[[maybe_unused]] constexpr int program_threads = 384;

extern "C" __device__ unsigned char kernel_many_queries_k0_attention_shared_kib[(ops::attention_bytes<bf16,
    128, 64, 384>() + 1023) / 1024] = {};
static CUTE_DEVICE void kernel_many_queries_k0_attention_work(const bf16* __restrict__ const q,
    const bf16* __restrict__ const k, const bf16* __restrict__ const v, bf16* __restrict__ const output,
    const index_t N) {
  // v0 = tf.attention(q, k, v, scale=0.08838834764831843, causal=True): bf16[2, 8, N, 64]
  // with Mesh(cta, thread: tile=((N * 4 + 127) // 128) * 4, t=384) as m:
  ops::HeadsInMemory<bf16 const> const q_{q, {index_t(N * 1024), index_t(N * 128), index_t(128), index_t(1)}};
  ops::HeadsInMemory<bf16 const> const k_{k, {index_t(N * 256), index_t(N * 128), index_t(128), index_t(1)}};
  ops::HeadsInMemory<bf16 const> const v_{v, {index_t(N * 128), index_t(N * 64), index_t(64), index_t(1)}};
  auto const task_ = ops::attention_task<128, 64, 1>(q_, k_, v_, ops::AllKeys{}, int(2), int(8), int(2),
      int(N), int(N), ops::Scores{0.08838834764831843, 0.0, 0, true});
  TILEFOUNDRY_DYNAMIC_SHARED(workspace_);
  ops::StoredHeads<bf16> const store_{{output, {index_t(N * 512), index_t(N * 64), index_t(64), index_t(1)}}};
  ops::attention<384>(task_, workspace_, store_);
}
extern "C" __global__ void __launch_bounds__(384) kernel_many_queries_k0_attention(const bf16* const q,
    const bf16* const k, const bf16* const v, bf16* const output, const index_t N) {
  await_earlier_launches();
  kernel_many_queries_k0_attention_work(q, k, v, output, N);
}

}  // namespace tilefoundry

// host
// many_queries.many_queries, compiled by TileFoundry for NVIDIA GPUs: the host's part.
#include <tilefoundry/runtime.h>

extern "C" __attribute__((visibility("hidden"))) const char tilefoundry_image_0[];

namespace tilefoundry {
namespace {
using index_t = std::int64_t;
const void* const images_[] = {tilefoundry_image_0};
constexpr host::Kernel kernels_[] = {
  {"kernel_many_queries_k0_attention", "many_queries_k0_attention", 0, 384,
      "kernel_many_queries_k0_attention_shared_kib", false, true},
};
host::Program program_(images_, kernels_);

constexpr std::int64_t dims_0_[] = {INT64_C(2), INT64_C(8), -1, INT64_C(128)};
constexpr std::int64_t dims_1_[] = {INT64_C(2), INT64_C(2), -1, INT64_C(128)};
constexpr std::int64_t dims_2_[] = {INT64_C(2), INT64_C(2), -1, INT64_C(64)};
constexpr std::int64_t dims_3_[] = {INT64_C(2), INT64_C(8), -1, INT64_C(64)};
constexpr host::Param params_[] = {
  {"q", "bf16[2, 8, N, 128]", kDLBfloat, 16, 4, dims_0_},
  {"k", "bf16[2, 2, N, 128]", kDLBfloat, 16, 4, dims_1_},
  {"v", "bf16[2, 2, N, 64]", kDLBfloat, 16, 4, dims_2_},
  {"output", "bf16[2, 8, N, 64]", kDLBfloat, 16, 4, dims_3_},
};
constexpr host::Variable variables_[] = {
  {"N", 1, INT64_C(1000)},
};
constexpr host::Declaration declaration_ = {"many_queries", params_, 4, 1, variables_, 1, nullptr, 0, kDLCUDA};

void entry_function(host::Arguments const& arguments_) {
  void* data_[4];
  DLTensor const* tensors_[4];
  std::int64_t extents_[1];
  int bound_by_[1];
  const host::Bound bound_{data_, tensors_, extents_};
  host::bind_arguments(declaration_, arguments_.values, arguments_.count, bound_, bound_by_);
  const index_t N = extents_[0];
  if (host::nothing_to_write(declaration_, bound_)) return;
  const bf16* const q = static_cast<const bf16*>(data_[0]);
  const bf16* const k = static_cast<const bf16*>(data_[1]);
  const bf16* const v = static_cast<const bf16*>(data_[2]);
  bf16* const output = static_cast<bf16*>(data_[3]);
  const host::Call call_(program_, host::device_of(declaration_, bound_));
  {
    // many_queries_k0_attention
    const index_t argument4_ = N;
    void* args_[] = {const_cast<void*>(static_cast<const void*>(&q)),
        const_cast<void*>(static_cast<const void*>(&k)), const_cast<void*>(static_cast<const void*>(&v)),
        const_cast<void*>(static_cast<const void*>(&output)),
        const_cast<void*>(static_cast<const void*>(&argument4_))};
    call_.launch(0, call_.persistent(0, ((N * 4 + 127) / 128) * 4), args_);
  }
}

}  // namespace
}  // namespace tilefoundry

TVM_FFI_DLL_EXPORT_TYPED_FUNC(many_queries, tilefoundry::entry_function);
