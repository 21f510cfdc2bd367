// Matrix instructions with their fragment layouts and descriptors, bulk copies, tensor-map loads, the ring.
#include <cuda.h>
#include <tilefoundry/runtime.h>

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

/// One warp: D(16x8) = A(16xk) B(kx8), fragments filled as the atom's layout says.
template <class T, class Sum>
__global__ void warp_mma(T const* a, T const* b, Sum* d) {
  using Atom = ops::atom::mma_sync<T>;
  constexpr int k = Atom::k, per_word = 4 / sizeof(T);
  const int lane = threadIdx.x;
  auto fa = ct::make_tensor<T>(ct::Int<4 * per_word>{});
  auto fb = ct::make_tensor<T>(ct::Int<2 * per_word>{});
  auto acc = ct::make_tensor<Sum>(ct::Int<4>{});
  cute::fill(acc, Sum(0));
  for (int w = 0; w < 4; ++w)
    for (int i = 0; i < per_word; ++i)
      fa(w * per_word + i) = a[(lane / 4 + w % 2 * 8) * k + w / 2 * (k / 2) + lane % 4 * per_word + i];
  for (int w = 0; w < 2; ++w)
    for (int i = 0; i < per_word; ++i)
      fb(w * per_word + i) = b[(w * (k / 2) + lane % 4 * per_word + i) * 8 + lane / 4];
  ops::mma(Atom{}, acc, fa, fb);
  for (int i = 0; i < 4; ++i) d[Atom::sum_row(lane, i) * 8 + Atom::sum_column(lane, i)] = acc(i);
}

template <class T, class Sum>
void check_warp_mma(char const* name, double low, double high) {
  constexpr int k = ops::atom::mma_sync<T>::k;
  auto a = harness::Random(1).values<T>(16 * k, low, high), b = harness::Random(2).values<T>(k * 8, low, high);
  Buffer<T> da(a), db(b);
  Buffer<Sum> dd(128);
  warp_mma<<<1, 32>>>(da.data(), db.data(), dd.data());
  CHECK_CUDA(cudaGetLastError());
  auto d = dd.host();
  for (int m = 0; m < 16; ++m)
    for (int n = 0; n < 8; ++n) {
      double want = 0, absolute = 0;
      for (int i = 0; i < k; ++i) {
        const double p = harness::value_of(a[m * k + i]) * harness::value_of(b[i * 8 + n]);
        want += p, absolute += std::fabs(p);
      }
      // fp8 sums on this chip keep fewer bits than float.
      const double bound = sizeof(T) == 1 && is_real_v<T> ? 3e-4 : 1e-6;
      harness::expect(harness::near(d[m * 8 + n], want, bound * absolute, 0), harness::describe(name, d[m * 8 + n], want));
    }
  harness::expect(dd.guards_intact(), std::string(name) + ": guard bytes changed");
}

__global__ void warp_mma_f64(double const* a, double const* b, double* d) {
  auto fa = ct::make_tensor<double>(ct::Int<1>{});
  auto fb = ct::make_tensor<double>(ct::Int<1>{});
  auto acc = ct::make_tensor<double>(ct::Int<2>{});
  const int lane = threadIdx.x;
  fa(0) = a[lane / 4 * 4 + lane % 4], fb(0) = b[lane % 4 * 8 + lane / 4], acc(0) = 0, acc(1) = 0;
  ops::mma(ops::atom::mma_sync_f64{}, acc, fa, fb);
  for (int i = 0; i < 2; ++i) d[lane / 4 * 8 + lane % 4 * 2 + i] = acc(i);
}

void check_warp_mma_f64() {
  auto a = harness::Random(1).values<double>(32, -1, 1), b = harness::Random(2).values<double>(32, -1, 1);
  Buffer<double> da(a), db(b), dd(64);
  warp_mma_f64<<<1, 32>>>(da.data(), db.data(), dd.data());
  auto d = dd.host();
  for (int m = 0; m < 8; ++m)
    for (int n = 0; n < 8; ++n) {
      double want = 0;
      for (int i = 0; i < 4; ++i) want += a[m * 4 + i] * b[i * 8 + n];
      harness::expect(harness::near(d[m * 8 + n], want, 1e-14, 0), "mma f64");
    }
}

#ifdef HOPPER
using ops::atom::Major;

/// One warpgroup: D(64xN) = A(64xK) B(KxN) for 128 bytes of k, tiles written swizzled by ordinary stores.
template <class T, int N, Major MA, Major MB>
__global__ void group_mma(T const* a, T const* b, float* d) {
  using Atom = ops::atom::wgmma<T, N, MA, MB>;
  constexpr int k = 128 / sizeof(T);
  __shared__ alignas(1024) char sa[64 * 128];
  __shared__ alignas(1024) char sb[N * 128];
  auto put = [&](char* tile, bool k_major, int outer, int kk, T value) {
    const int in_chunk = outer % 64;
    const int at = k_major ? ops::atom::swizzled(outer, kk * sizeof(T) / 16) + kk * sizeof(T) % 16
                           : outer / 64 * 8192 + ops::atom::swizzled(kk, in_chunk / 8) + in_chunk % 8 * 2;
    *reinterpret_cast<T*>(tile + at) = value;
  };
  for (int i = threadIdx.x; i < 64 * k; i += 128) put(sa, MA == Major::k, i / k, i % k, a[i]);
  for (int i = threadIdx.x; i < N * k; i += 128) put(sb, MB == Major::k, i % N, i / N, b[i]);
  ops::atom::proxy_fence();
  __syncthreads();
  auto acc = ct::make_tensor<float>(ct::Int<Atom::sums>{});
  cute::fill(acc, 0.0f);
  const uint64_t da = ops::atom::descriptor(sa, 8192), db = ops::atom::descriptor(sb, 8192);
  ops::atom::wgmma_fence();
  CUTE_UNROLL
  for (int s = 0; s < k / Atom::k; ++s)
    ops::mma(Atom{}, acc, ops::atom::advance(da, s * Atom::a_step), ops::atom::advance(db, s * Atom::b_step));
  ops::atom::wgmma_commit();
  ops::atom::wgmma_wait<0>();
  CUTE_UNROLL
  for (int i = 0; i < Atom::sums; ++i)
    d[Atom::sum_row(threadIdx.x, i) * N + Atom::sum_column(threadIdx.x, i)] = acc(i);
}

template <class T, int N, Major MA, Major MB>
void check_group_mma(char const* name) {
  constexpr int k = 128 / sizeof(T);
  auto a = harness::Random(1).values<T>(64 * k, -2, 2), b = harness::Random(2).values<T>(k * N, -2, 2);
  Buffer<T> da(a), db(b);
  Buffer<float> dd(64 * N);
  group_mma<T, N, MA, MB><<<1, 128>>>(da.data(), db.data(), dd.data());
  CHECK_CUDA(cudaGetLastError());
  auto d = dd.host();
  for (int m = 0; m < 64; ++m)
    for (int n = 0; n < N; ++n) {
      double want = 0, absolute = 0;
      for (int i = 0; i < k; ++i) {
        const double p = harness::value_of(a[m * k + i]) * harness::value_of(b[i * N + n]);
        want += p, absolute += std::fabs(p);
      }
      const double bound = sizeof(T) == 1 ? 3e-4 : 1e-6;
      harness::expect(harness::near(d[m * N + n], want, bound * absolute, 0), harness::describe(name, d[m * N + n], want));
    }
  harness::expect(dd.guards_intact(), std::string(name) + ": guard bytes changed");
}

void group_cases() {
  check_group_mma<bf16, 64, Major::k, Major::k>("wgmma bf16 n64 k k");
  check_group_mma<bf16, 128, Major::k, Major::outer>("wgmma bf16 n128 k outer");
  check_group_mma<bf16, 128, Major::outer, Major::k>("wgmma bf16 n128 outer k");
  check_group_mma<f16, 64, Major::outer, Major::outer>("wgmma f16 n64 outer outer");
  check_group_mma<f16, 128, Major::k, Major::k>("wgmma f16 n128 k k");
  check_group_mma<fp8e4m3, 64, Major::k, Major::k>("wgmma e4m3 n64");
  check_group_mma<fp8e4m3, 128, Major::k, Major::k>("wgmma e4m3 n128");
  check_group_mma<fp8e5m2, 64, Major::k, Major::k>("wgmma e5m2 n64");
  check_group_mma<fp8e5m2, 128, Major::k, Major::k>("wgmma e5m2 n128");
}

/// A ring of bulk loads: one producing warp, three consuming warps; doubles every value and stores in bulk.
template <int Stages>
__global__ void ring_kernel(float const* in, float* out, int tiles) {
  constexpr int n = 256;
  __shared__ alignas(128) float slots[Stages][n];
  __shared__ alignas(128) float result[n];
  __shared__ typename ops::ring<Stages>::storage storage;
  ops::ring<Stages> ring{storage};
  if (threadIdx.x == 0) {
    ring.init(96);
    ops::barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0)
      for (int t = 0; t < tiles; ++t)
        ops::bulk_load(slots[t % Stages], in + (size_t(blockIdx.x) * tiles + t) * n, n * 4, ring.acquire(t, n * 4));
  } else {
    for (int t = 0; t < tiles; ++t) {
      ring.wait(t);
      for (int i = threadIdx.x - 32; i < n; i += 96) result[i] = 2 * slots[t % Stages][i];
      ring.release(t);
      ops::store_fence();
      ops::sync<ops::SyncKind::named, 32, 96, 0, 1>();
      if (threadIdx.x == 32) {
        ops::bulk_store(out + (size_t(blockIdx.x) * tiles + t) * n, result, n * 4);
        ops::bulk_store_wait();
      }
      ops::sync<ops::SyncKind::named, 32, 96, 0, 1>();
    }
  }
}

template <int Stages>
void check_ring() {
  const int tiles = harness::quick() ? 9 : 100, blocks = 40, n = 256 * tiles * blocks;
  auto in = harness::Random(5).values<float>(n, -1, 1);
  Buffer<float> src(in), dst(n);
  ring_kernel<Stages><<<blocks, 128>>>(src.data(), dst.data(), tiles);
  CHECK_CUDA(cudaGetLastError());
  auto out = dst.host();
  long wrong = 0;
  for (int i = 0; i < n; ++i) wrong += out[i] != 2 * in[i];
  harness::expect(wrong == 0, "ring of " + std::to_string(Stages) + " bulk loads");
  harness::expect(dst.guards_intact(), "ring: guard bytes changed");
}

/// Boxes of 8 x 32 floats of a matrix, the last ones beyond its edge (they read as zero).
__global__ void box_kernel(__grid_constant__ const CUtensorMap map, float* out) {
  __shared__ alignas(128) float box[8 * 32];
  __shared__ ops::mbarrier bar;
  if (threadIdx.x == 0) {
    ops::prefetch_map(&map);
    bar.init(1);
    ops::barrier_init_fence();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    bar.arrive_expect(sizeof(box));
    ops::tma_load(box, &map, bar, blockIdx.x * 32, blockIdx.y * 8);
  }
  bar.wait(0);
  for (int i = threadIdx.x; i < 256; i += 32) out[(blockIdx.y * gridDim.x + blockIdx.x) * 256 + i] = box[i];
}

void check_boxes() {
  const int rows = 21, columns = 76, bx = 3, by = 3;
  auto in = harness::Random(6).values<float>(rows * columns, -1, 1);
  Buffer<float> src(in), dst(bx * by * 256);
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  CHECK_CUDA(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found));
  CUtensorMap map;
  cuuint64_t dims[] = {cuuint64_t(columns), cuuint64_t(rows)}, strides[] = {cuuint64_t(columns) * 4};
  cuuint32_t box[] = {32, 8}, steps[] = {1, 1};
  auto status = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, src.data(), dims, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  harness::expect(status == CUDA_SUCCESS, "cuTensorMapEncodeTiled");
  box_kernel<<<dim3(bx, by), 32>>>(map, dst.data());
  CHECK_CUDA(cudaGetLastError());
  auto out = dst.host();
  for (int y = 0; y < by; ++y)
    for (int x = 0; x < bx; ++x)
      for (int i = 0; i < 256; ++i) {
        const int row = y * 8 + i / 32, column = x * 32 + i % 32;
        const float want = row < rows && column < columns ? in[row * columns + column] : 0;
        harness::expect(out[(y * bx + x) * 256 + i] == want, "tma_load");
      }
}
#endif

int main() {
  check_warp_mma<f16, float>("mma f16", -2, 2);
  check_warp_mma<bf16, float>("mma bf16", -2, 2);
  check_warp_mma<int8_t, int32_t>("mma i8", -100, 100);
  check_warp_mma<uint8_t, int32_t>("mma u8", 0, 200);
  check_warp_mma_f64();
#ifdef HOPPER
  check_warp_mma<fp8e4m3, float>("mma fp8e4m3", -2, 2);
  check_warp_mma<fp8e5m2, float>("mma fp8e5m2", -2, 2);
  group_cases();
  check_ring<1>();
  check_ring<4>();
  check_boxes();
#endif
  return harness::finish("mma");
}
