// Measurements of the runtime's ops on one GPU, each beside the ceiling that it is held against. Medians of 30 after
// warm-up, by events; operands rotate over more memory than the L2 holds; random data.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<256>>{};
}
}  // namespace tilefoundry

#include <algorithm>
#include <functional>

#include "../tests/gpu/harness.h"

using namespace tilefoundry;
namespace ct = cute;

double median_ms(std::function<void(int)> const& launch) {
  cudaEvent_t begin, end;
  CHECK_CUDA(cudaEventCreate(&begin));
  CHECK_CUDA(cudaEventCreate(&end));
  for (int i = 0; i < 5; ++i) launch(i);
  std::vector<float> times;
  for (int i = 0; i < 30; ++i) {
    CHECK_CUDA(cudaEventRecord(begin));
    launch(i);
    CHECK_CUDA(cudaEventRecord(end));
    CHECK_CUDA(cudaEventSynchronize(end));
    float ms;
    CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
    times.push_back(ms);
  }
  CHECK_CUDA(cudaGetLastError());
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

template <class T>
T* random_values(size_t n) {
  std::vector<T> host(1 << 20);
  harness::Random random(9);
  for (auto& x : host) x = convert<T>(random.next(-1, 1));
  T* device;
  CHECK_CUDA(cudaMalloc(&device, n * sizeof(T)));
  for (size_t at = 0; at < n; at += host.size())
    CHECK_CUDA(cudaMemcpy(device + at, host.data(), std::min(host.size(), n - at) * sizeof(T), cudaMemcpyHostToDevice));
  return device;
}

constexpr int kVector = 8, kTiles = 4;

/// dst = silu(g) * u, kTiles 16-byte pieces per thread, all loaded before the first is used.
__global__ void __launch_bounds__(256) gated(bf16 const* g, bf16 const* u, bf16* dst) {
  using V = ct::Layout<ct::Int<kVector>>;
  const size_t first = size_t(blockIdx.x) * 256 * kVector * kTiles + threadIdx.x * kVector;
  auto gate = ct::make_tensor<bf16>(ct::Shape<ct::Int<kVector>, ct::Int<kTiles>>{});
  auto up = ct::make_tensor<bf16>(ct::Shape<ct::Int<kVector>, ct::Int<kTiles>>{});
  using Pieces = ct::Layout<ct::Shape<ct::Int<kVector>, ct::Int<kTiles>>, ct::Stride<ct::Int<1>, ct::Int<256 * kVector>>>;
  tilefoundry::copy(as_gmem(g + first, Pieces{}), gate);
  tilefoundry::copy(as_gmem(u + first, Pieces{}), up);
  auto act = ct::make_tensor<float>(ct::Shape<ct::Int<kVector>, ct::Int<kTiles>>{});
  ops::unary(ops::silu_op{}, gate, act);
  auto out = as_gmem(dst + first, Pieces{});
  ops::binary(ops::mul_op{}, act, up, out);
  static_cast<void>(V{});
}

/// One row of 4096 per block: mean of squares over all threads, then the scaled row.
__global__ void __launch_bounds__(256) rms_norm(bf16 const* src, bf16* dst) {
  constexpr int width = 4096, pieces = width / (256 * kVector);
  auto mesh = make_mesh<TopologyScope::thread>(ct::make_layout(ct::Int<256>{}));
  using G = ct::Shape<ct::Int<pieces>, ct::Int<256>, ct::Int<kVector>>;
  using Own = ct::Layout<G, ct::Stride<ct::Int<kVector>, ct::Int<0>, ct::Int<1>>>;
  auto attrs = ct::make_tuple(shard::S<1>{});
  auto rmem = make_shard_layout(Own{}, attrs, mesh);
  auto gl = ct::make_layout(G{}, ct::LayoutRight{});
  auto gmem = make_shard_layout(gl, attrs, mesh);
  auto in = make_shard_tensor(as_gmem(src + size_t(blockIdx.x) * width, gl), gl, gmem);
  auto x = make_shard_tensor(ct::make_tensor<bf16>(ct::Int<pieces * kVector>{}), gl, rmem);
  auto squares = make_shard_tensor(ct::make_tensor<float>(ct::Int<pieces * kVector>{}), gl, rmem);
  tilefoundry::copy(in, x);
  ops::unary(ops::square_op{}, x, squares);
  auto mean = ct::make_tensor<float>(ct::Int<1>{});
  using Axes = ops::axes<0, 1, 2>;
  __shared__ alignas(16) char workspace[ops::reduce_workspace_bytes<ops::mean_op, Axes, decltype(squares), decltype(mean)>()];
  ops::reduce<ops::mean_op, Axes>(squares, mean, workspace);
  auto scale = ct::make_tensor<float>(ct::Int<1>{});
  scale(0) = rsqrtf(mean(0) + 1e-6f);
  auto out = make_shard_tensor(as_gmem(dst + size_t(blockIdx.x) * width, gl), gl, gmem);
  ops::binary(ops::mul_op{}, x, scale, out);
}

__global__ void barriers(int rounds, unsigned* pair) {
  for (int i = 0; i < rounds; ++i) ops::sync<ops::SyncKind::grid>(pair);
}

template <class T>
__global__ void __launch_bounds__(256) multiply(T const* a, T const* b, T* d, int n) {
  auto row = [&](auto* p) { return as_gmem(p, ct::make_layout(ct::make_shape(n, n), ct::make_stride(n, ct::Int<1>{}))); };
  auto out = row(d);
  __shared__ alignas(1024) char workspace[ops::matmul_workspace_bytes<decltype(row(a)), decltype(row(b)), 256>()];
  ops::matmul(row(a), row(b), out, workspace);
}

template <class T>
void matmul_rate(char const* name, int n) {
  T *a = random_values<T>(size_t(n) * n), *b = random_values<T>(size_t(n) * n), *d;
  CHECK_CUDA(cudaMalloc(&d, size_t(n) * n * sizeof(T)));
  const double ms = median_ms([&](int) { multiply<<<4 * 132, 256>>>(a, b, d, n); });
  std::printf("matmul %s %d^3: %.3f ms, %.0f TFLOP/s\n", name, n, ms, 2.0 * n * n * n / ms * 1e-9);
  cudaFree(a), cudaFree(b), cudaFree(d);
}

int main() {
  const size_t n = size_t(16384) * 14336, rotation = 2;
  bf16 *g = random_values<bf16>(n * rotation), *u = random_values<bf16>(n * rotation), *d;
  CHECK_CUDA(cudaMalloc(&d, n * sizeof(bf16)));
  const double copy = 2.0 * n * sizeof(bf16) / median_ms([&](int i) {
    CHECK_CUDA(cudaMemcpyAsync(d, g + n * (i % rotation), n * sizeof(bf16), cudaMemcpyDeviceToDevice));
  }) * 1e-6;
  std::printf("copy device to device: %.0f GB/s\n", copy);
  const double swiglu = 3.0 * n * sizeof(bf16) / median_ms([&](int i) {
    gated<<<n / (256 * kVector * kTiles), 256>>>(g + n * (i % rotation), u + n * (i % rotation), d);
  }) * 1e-6;
  std::printf("silu(g)*u 16384x14336 bf16: %.0f GB/s, %.2f of copy\n", swiglu, swiglu / copy);
  const size_t rows = 32768;
  const double norm = 2.0 * rows * 4096 * sizeof(bf16) / median_ms([&](int i) {
    rms_norm<<<rows, 256>>>(g + n * (i % rotation), d);
  }) * 1e-6;
  std::printf("rms_norm 32768x4096 bf16 (no weight): %.0f GB/s, %.2f of copy\n", norm, norm / copy);
  unsigned* pair;
  CHECK_CUDA(cudaMalloc(&pair, 8));
  CHECK_CUDA(cudaMemset(pair, 0, 8));
  int rounds = 10000;
  void* args[] = {&rounds, &pair};
  const double barrier = median_ms([&](int) {
    CHECK_CUDA(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(barriers), dim3(132), dim3(256), args, 0, nullptr));
  });
  std::printf("grid barrier, 132 blocks: %.2f us\n", barrier * 1e3 / rounds);
  matmul_rate<bf16>("bf16", 4096);
  matmul_rate<float>("f32", 4096);
  return harness::finish("ops");
}
