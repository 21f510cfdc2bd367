// Shard projections and copies on the device, and asynchronous staging.
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::cta>() noexcept {
  return cute::Shape<cute::Int<8>>{};
}
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<32>>{};
}
}  // namespace tilefoundry

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

using G = ct::Shape<ct::Int<2>, ct::Int<4>, ct::Int<3>, ct::Int<32>, ct::Int<4>>;
using Attrs = ct::tuple<shard::S<0>, shard::S<1>, shard::S<3>>;

__device__ auto golden_mesh() {
  return make_mesh<TopologyScope::cta, TopologyScope::thread>(
      ct::make_layout(ct::Shape<ct::Int<2>, ct::Int<4>, ct::Int<32>>{}, ct::LayoutRight{}));
}

/// Logical (2, 1536) over a (2, 4, 32) mesh: into registers, out again, by each form of copy.
template <class T>
__global__ void golden(T const* in, T* whole, T* sharded, T* partitioned) {
  auto logical = ct::make_layout(ct::Shape<ct::Int<2>, ct::Int<1536>>{}, ct::LayoutRight{});
  auto mesh = golden_mesh();
  auto gmem = make_shard_layout(ct::make_layout(G{}, ct::LayoutRight{}), Attrs{}, mesh);
  auto rmem = make_shard_layout(
      ct::make_layout(G{}, ct::Stride<ct::Int<0>, ct::Int<0>, ct::Int<4>, ct::Int<0>, ct::Int<1>>{}), Attrs{}, mesh);
  auto src = make_shard_tensor(as_gmem(in, logical), logical, gmem);
  auto regs = make_shard_tensor(ct::make_tensor<T>(ct::Int<12>{}), logical, rmem);
  tilefoundry::copy(src, regs);  // shard to shard
  auto plain = as_gmem(whole, logical);
  tilefoundry::copy(regs, plain);  // shard to the whole plain value
  auto again = make_shard_tensor(ct::make_tensor<T>(ct::Int<12>{}), logical, rmem);
  auto all = as_gmem(in, logical);
  tilefoundry::copy(all, again);  // whole plain value to shard
  auto dst = make_shard_tensor(as_gmem(sharded, logical), logical, gmem);
  tilefoundry::copy(again, dst);
  // The instance's own part of a cute::Tensor whose layout is a ShardLayout.
  auto part = shard_partition(ct::make_tensor(ct::make_gmem_ptr(in), gmem));
  auto target = shard_partition(ct::make_tensor(ct::make_gmem_ptr(partitioned), gmem));
  auto own = ct::make_tensor<T>(part.shape());
  tilefoundry::copy(part, own);
  tilefoundry::copy(own, target);
}

template <class T>
void check_golden(char const* name, size_t shift) {
  auto in = harness::Random(3).values<T>(3072, -9, 9);
  Buffer<T> src(in, shift), a(3072, shift), b(3072, shift), c(3072, shift);
  golden<<<8, 32>>>(src.data(), a.data(), b.data(), c.data());
  CHECK_CUDA(cudaGetLastError());
  for (auto* out : {&a, &b, &c}) {
    auto got = out->host();
    harness::expect(std::memcmp(got.data(), in.data(), 3072 * sizeof(T)) == 0, std::string("golden copy ") + name);
    harness::expect(out->guards_intact(), std::string("golden copy ") + name + ": guard bytes changed");
  }
}

/// Stage `N` elements per thread through shared memory by copy_async, two batches in flight.
template <class T, int N, int Step>
__global__ void staged(T const* in, T* out, int count) {
  __shared__ alignas(16) T memory[2][64 * N * Step];
  const int threads = 64, first = blockIdx.x * threads;
  const int tiles = count / (N * threads);
  auto stage = [&](int tile) {
    auto src = as_gmem(in + (tile * threads + threadIdx.x) * N, ct::Layout<ct::Int<N>>{});
    auto dst = ct::make_tensor(ct::make_smem_ptr(memory[tile & 1] + threadIdx.x * N * Step),
                               ct::Layout<ct::Int<N>, ct::Int<Step>>{});
    ops::copy_async(src, dst);
    ops::cp_async_commit();
  };
  static_cast<void>(first);
  stage(0);
  for (int tile = 0; tile < tiles; ++tile) {
    if (tile + 1 < tiles) {
      stage(tile + 1);
      ops::cp_async_wait<1>();
    } else {
      ops::cp_async_wait<0>();
    }
    __syncthreads();
    const int other = (threadIdx.x + 17) % threads;  // read what another thread staged
    for (int i = 0; i < N; ++i) out[(tile * threads + other) * N + i] = memory[tile & 1][(other * N + i) * Step];
    __syncthreads();
  }
}

template <class T, int N, int Step>
void check_staged(char const* name) {
  for (size_t shift : {0, 1, 2}) {
    const int count = 64 * N * 6;
    auto in = harness::Random(N).values<T>(count, -9, 9);
    Buffer<T> src(in, shift), dst(count, shift);
    staged<T, N, Step><<<1, 64>>>(src.data(), dst.data(), count);
    CHECK_CUDA(cudaGetLastError());
    auto got = dst.host();
    harness::expect(std::memcmp(got.data(), in.data(), count * sizeof(T)) == 0, std::string("copy_async ") + name);
    harness::expect(dst.guards_intact(), std::string("copy_async ") + name + ": guard bytes changed");
  }
}

/// The launch's own grid extent where nothing static is known (this program specialises it, so ask the id too).
__global__ void ids(int* out) {
  if (threadIdx.x == 0) out[blockIdx.x] = program_id<TopologyScope::cta>() * 100 + program_dim<TopologyScope::cta>();
}

int main() {
  check_golden<float>("f32", 0);
  check_golden<float>("f32 misaligned", 1);
  check_golden<bf16>("bf16", 0);
  check_golden<bf16>("bf16 misaligned", 3);
  check_golden<fp8e4m3>("fp8", 0);
  check_golden<double>("f64", 0);
  check_staged<float, 4, 1>("16 bytes");
  check_staged<float, 1, 1>("4 bytes");
  check_staged<float, 3, 1>("3 floats");
  check_staged<float, 4, 2>("strided");
  check_staged<bf16, 8, 1>("8 halves");
  check_staged<bf16, 3, 1>("3 halves");
  check_staged<uint8_t, 16, 1>("16 single bytes");
  check_staged<uint8_t, 5, 1>("5 single bytes");
  check_staged<double, 2, 1>("two doubles");
  Buffer<int> out(8);
  ids<<<8, 32>>>(out.data());
  auto got = out.host();
  for (int b = 0; b < 8; ++b) harness::expect(got[b] == b * 100 + 8, "program_id and program_dim");
  return harness::finish("copy");
}
