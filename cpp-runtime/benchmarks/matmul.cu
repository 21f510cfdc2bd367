// TFLOP/s of ops::matmul in the copy-engine tier for large 16-bit products, by width of the tile.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<288>>{};
}
}  // namespace tilefoundry

#include <algorithm>
#include <array>

#include "../tests/gpu/harness.h"

using namespace tilefoundry;
namespace ct = cute;

constexpr int shared_bytes = 227 * 1024;

/// Both operands k-major, the plain epilogue in packs of eight.
template <int Columns>
__device__ void product(bf16 const* a, bf16 const* b, bf16* d, int m, int n, int k) {
  extern __shared__ __align__(1024) char workspace[];
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  auto ta = as_gmem(a, ct::make_layout(ct::make_shape(m, k), ct::make_stride(k, ct::_1{})));
  auto tb = as_gmem(b, ct::make_layout(ct::make_shape(k, n), ct::make_stride(ct::_1{}, k)));
  auto td = as_gmem(d, ct::make_layout(ct::make_shape(m, n), ct::make_stride(n, ct::_1{})));
  auto const store = [&](auto const&, int row, int column, auto const& sums) {
    constexpr int width = sizeof(sums.value) / sizeof(sums.value[0]);
    detail::Pack<bf16, width> out;
    for (int i = 0; i < width; ++i) out.value[i] = convert<bf16>(sums.value[i]);
    *reinterpret_cast<detail::Pack<bf16, width>*>(d + static_cast<long long>(row) * n + column) = out;
  };
  using Tile = ops::matmul_impl::TmaTile<Columns>;
  ops::matmul_impl::TmaTier<bf16, 288>::template pipelined<Tile>(ta, tb, td, workspace,
                                                                 ops::make_packed_epilogue<8>(store, n % 8 == 0));
#endif
}

template <int Columns>
__global__ void __launch_bounds__(288) alone(bf16 const* a, bf16 const* b, bf16* d, int m, int n, int k) {
  product<Columns>(a, b, d, m, n, k);
}
template <int Columns>
__global__ void TILEFOUNDRY_PAIRED_BLOCKS __launch_bounds__(288)
    paired(bf16 const* a, bf16 const* b, bf16* d, int m, int n, int k) {
  product<Columns>(a, b, d, m, n, k);
}

/// Numbers in [-1, 1) from a hash of the place.
__global__ void fill(bf16* to, long long count, unsigned seed) {
  for (long long i = blockIdx.x * 256ll + threadIdx.x; i < count; i += gridDim.x * 256ll) {
    unsigned x = static_cast<unsigned>(i) * 2654435761u ^ seed;
    x ^= x >> 16, x *= 0x7feb352du, x ^= x >> 15, x *= 0x846ca68bu, x ^= x >> 16;
    to[i] = convert<bf16>(static_cast<float>(x) * (2.0f / 4294967296.0f) - 1.0f);
  }
}

/// Largest deviation of some of the results from a sum in double, in units of its rounding.
double deviation(bf16 const* a, bf16 const* b, bf16 const* d, int m, int n, int k) {
  double worst = 0;
  std::vector<bf16> x(k), y(k);
  for (int i = 0; i < 64; ++i) {
    const long long row = (i * 7919ll) % m, column = (i * 104729ll) % n;
    bf16 got;
    CHECK_CUDA(cudaMemcpy(x.data(), a + row * k, k * 2, cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaMemcpy(y.data(), b + column * k, k * 2, cudaMemcpyDeviceToHost));
    CHECK_CUDA(cudaMemcpy(&got, d + row * n + column, 2, cudaMemcpyDeviceToHost));
    double want = 0, absolute = 0;
    for (int p = 0; p < k; ++p) {
      const double t = harness::value_of(x[p]) * harness::value_of(y[p]);
      want += t, absolute += std::fabs(t);
    }
    worst = std::max(worst, std::fabs(harness::value_of(got) - want) / (0.004 * std::fabs(want) + 1e-6 * absolute));
  }
  return worst;
}

template <int Columns>
void measure(int m, int n, int k, bool pairs) {
  auto const multiply = pairs ? paired<Columns> : alone<Columns>;
  bf16 *a, *b, *d;
  CHECK_CUDA(cudaMalloc(&a, 2ll * m * k));
  CHECK_CUDA(cudaMalloc(&b, 2ll * n * k));
  CHECK_CUDA(cudaMalloc(&d, 2ll * m * n));
  fill<<<1024, 256>>>(a, 1ll * m * k, 1);
  fill<<<1024, 256>>>(b, 1ll * n * k, 2);
  CHECK_CUDA(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
  const int tiles = (m + 127) / 128 * ((n + Columns - 1) / Columns), blocks = std::min((tiles + 1) / 2 * 2, 132);
  cudaEvent_t begin, end;
  CHECK_CUDA(cudaEventCreate(&begin));
  CHECK_CUDA(cudaEventCreate(&end));
  std::vector<double> rates;
  constexpr int launches = 10;
  for (int round = 0; round < 8; ++round) {
    CHECK_CUDA(cudaEventRecord(begin));
    for (int i = 0; i < launches; ++i) multiply<<<blocks, 288, shared_bytes>>>(a, b, d, m, n, k);
    CHECK_CUDA(cudaGetLastError());
    CHECK_CUDA(cudaEventRecord(end));
    CHECK_CUDA(cudaEventSynchronize(end));
    float ms = 0;
    CHECK_CUDA(cudaEventElapsedTime(&ms, begin, end));
    rates.push_back(2.0 * m * n * k * launches / ms / 1e9);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("%dx%dx%d, tiles of 128x%d, blocks %s: %.0f TFLOP/s, deviation %.2f\n", m, n, k, Columns,
              pairs ? "in pairs" : "alone", rates[rates.size() / 2],
              deviation(a, b, d, m, n, k));
  CHECK_CUDA(cudaFree(a));
  CHECK_CUDA(cudaFree(b));
  CHECK_CUDA(cudaFree(d));
}

int main() {
  for (auto const& s : {std::array<int, 3>{4096, 4096, 4096}, {512, 4096, 14336}, {8192, 8192, 8192}}) {
    for (bool pairs : {false, true}) {
      measure<256>(s[0], s[1], s[2], pairs);
      measure<128>(s[0], s[1], s[2], pairs);
    }
  }
  return 0;
}
