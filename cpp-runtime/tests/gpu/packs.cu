// Packs of elements as kernels move them: streaming reads and writes, packs kept in registers, packs staged in more
// shared memory than a kernel has statically. Bits are compared.
#include <tilefoundry/runtime.h>

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;

template <class T, int N>
using Pack = detail::Pack<T, N>;

/// Each pack by one streaming read, an excursion through registers and one streaming write.
template <class T, int N>
__global__ void streamed(T const* in, T* out, int packs) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < packs; i += gridDim.x * blockDim.x) {
    auto pack = detail::load_streaming(reinterpret_cast<Pack<T, N> const*>(in) + i);
    detail::stay_packed(pack);
    detail::store_streaming(reinterpret_cast<Pack<T, N>*>(out) + i, pack);
  }
}

/// Rows of `count` packs per thread, all fetched before the first is read; written back in reverse.
template <class P, int Threads>
__global__ void staged(P const* in, P* out, int count) {
  TILEFOUNDRY_DYNAMIC_SHARED(memory);
  const ops::StagedPacks<P, Threads> packs(memory, threadIdx.x);
  P const* row = in + size_t(blockIdx.x) * count * Threads;
  for (int i = 0; i < count; ++i) packs.fetch(i, row + i * Threads + threadIdx.x);
  ops::cp_async_commit();
  ops::cp_async_wait<0>();
  P* result = out + size_t(blockIdx.x) * count * Threads;
  for (int i = 0; i < count; ++i) result[(count - 1 - i) * Threads + threadIdx.x] = packs[i];
}

template <class T, int N>
void check_streamed(char const* name) {
  for (int packs : {1, 31, 32, 33, 1025, 40009}) {
    if (harness::quick() && packs > 1025) continue;
    auto in = harness::Random(packs).values<T>(size_t(packs) * N, -9, 9);
    Buffer<T> src(in), dst(in.size());
    streamed<T, N><<<packs > 100 ? 7 : 1, 64>>>(src.data(), dst.data(), packs);
    CHECK_CUDA(cudaGetLastError());
    auto got = dst.host();
    harness::expect(std::memcmp(got.data(), in.data(), in.size() * sizeof(T)) == 0, std::string("streamed ") + name);
    harness::expect(dst.guards_intact(), std::string("streamed ") + name + ": guard bytes changed");
  }
}

template <class T, int N, int Threads>
void check_staged(char const* name, int count) {
  using P = Pack<T, N>;
  const int blocks = 5, bytes = count * Threads * int(sizeof(P));
  auto in = harness::Random(N).values<T>(size_t(blocks) * count * Threads * N, -9, 9);
  Buffer<T> src(in), dst(in.size());
  CHECK_CUDA(cudaFuncSetAttribute(staged<P, Threads>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  staged<P, Threads><<<blocks, Threads, bytes>>>(reinterpret_cast<P const*>(src.data()), reinterpret_cast<P*>(dst.data()), count);
  CHECK_CUDA(cudaGetLastError());
  auto got = dst.host();
  bool right = true;
  const size_t row = size_t(Threads) * N;
  for (int b = 0; b < blocks; ++b)
    for (int i = 0; i < count; ++i)
      right = right && std::memcmp(&got[(b * count + count - 1 - i) * row], &in[(b * count + i) * row], row * sizeof(T)) == 0;
  harness::expect(right, std::string("staged ") + name);
  harness::expect(dst.guards_intact(), std::string("staged ") + name + ": guard bytes changed");
}

int main() {
  check_streamed<float, 4>("16 bytes of f32");
  check_streamed<bf16, 8>("16 bytes of bf16");
  check_streamed<uint8_t, 16>("16 bytes of u8");
  check_streamed<double, 1>("one f64");
  check_streamed<f16, 2>("two f16");
  check_streamed<fp8e4m3, 1>("one fp8e4m3");
  check_staged<float, 4, 64>("one pack", 1);
  check_staged<bf16, 8, 256>("packs of bf16", 24);
  check_staged<float, 1, 33>("words, a part of a warp", 7);
  check_staged<double, 1, 128>("f64", 17);
  check_staged<float, 4, 256>("more than static memory holds", 40);
  return harness::finish("packs");
}
