// ops::matmul: every tier, operand order, element type and ragged size against double sums on the host.
#include <tilefoundry/runtime.h>

#ifndef THREADS
#error "compile once per block size: -DTHREADS=..."
#endif

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<THREADS>>{};
}
}  // namespace tilefoundry

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

/// How an operand lies: rows of k, columns of k, or with neither stride known to be 1.
enum class Order { k, rows, unknown };

template <Order O, class Rows, class Columns>
CUTE_HOST_DEVICE auto batched_layout(int batches, Rows rows, Columns columns) {
  if constexpr (O == Order::k) {
    return ct::make_layout(ct::make_shape(batches, rows, columns), ct::make_stride(rows * columns, columns, ct::Int<1>{}));
  } else if constexpr (O == Order::rows) {
    return ct::make_layout(ct::make_shape(batches, rows, columns), ct::make_stride(rows * columns, ct::Int<1>{}, rows));
  } else {
    return ct::make_layout(ct::make_shape(batches, rows, columns), ct::make_stride(rows * columns, columns, 1));
  }
}

#ifdef PAIRED
#define BLOCKS TILEFOUNDRY_PAIRED_BLOCKS
constexpr int together = 2;
#else
#define BLOCKS
constexpr int together = 1;
#endif

/// Only the block of the copy-engine tier takes more than static shared memory holds.
constexpr int dynamic_bytes = THREADS == 288 ? 227 * 1024 : 0;

/// Adds 1 and doubles: shows that the epilogue sees every sum once.
struct Twice {
  template <class D, class Sum>
  __device__ void operator()(D const& d, int m, int n, Sum sum) const {
    ops::store_result{}(d, m, n, (sum + Sum(1)) * Sum(2));
  }
};

template <Order OA, Order OB, class A, class B, class D, class M, class N, class K>
__global__ void BLOCKS __launch_bounds__(THREADS) kernel(A const* a, B const* b, D* d, int batches, M m, N n, K k, bool twice) {
  auto ta = as_gmem(a, batched_layout<OA>(batches, m, k));
  auto tb = as_gmem(b, batched_layout<OB>(batches, k, n));
  auto td = as_gmem(d, batched_layout<Order::k>(batches, m, n));
  constexpr int bytes = ops::matmul_workspace_bytes<decltype(ta), decltype(tb), THREADS>();
  static_assert(bytes <= dynamic_bytes || bytes <= 48 * 1024, "the launch gives less shared memory than the call needs");
#if THREADS == 288
  extern __shared__ __align__(1024) char workspace[];
#else
  __shared__ alignas(1024) char workspace[bytes];
#endif
  if (twice) {
    ops::matmul(ta, tb, td, workspace, Twice{});
  } else {
    ops::matmul(ta, tb, td, workspace);
  }
}

/// Extents are numbers, or `ct::Int` where the compiler knows them.
template <Order OA, Order OB, class A, class B, class D, class M, class N, class K>
void check(char const* name, int batches, M rows, N columns, K depth, size_t shift, int blocks, bool twice = false) {
  const int m = rows, n = columns, k = depth;
  auto a = harness::Random(m).values<A>(size_t(batches) * m * k, -2, 2);
  auto b = harness::Random(n + 1).values<B>(size_t(batches) * k * n, -2, 2);
  Buffer<A> da(a, shift);
  Buffer<B> db(b, shift);
  Buffer<D> dd(size_t(batches) * m * n, shift);
  if (dynamic_bytes > 0)
    CHECK_CUDA(cudaFuncSetAttribute(kernel<OA, OB, A, B, D, M, N, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes));
  kernel<OA, OB><<<(blocks + together - 1) / together * together, THREADS, dynamic_bytes>>>(da.data(), db.data(), dd.data(), batches, rows, columns, depth, twice);
  CHECK_CUDA(cudaGetLastError());
  auto d = dd.host();
  const double exactness = std::is_same<A, double>::value ? 1e-14 : is_real_v<A> ? 1e-6 : 0;
  for (int z = 0; z < batches; ++z)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j) {
        double want = 0, absolute = 0;
        for (int p = 0; p < k; ++p) {
          const double x = harness::value_of(a[size_t(z) * m * k + (OA == Order::rows ? p * m + i : i * k + p)]);
          const double y = harness::value_of(b[size_t(z) * k * n + (OB == Order::rows ? j * k + p : p * n + j)]);
          want += x * y, absolute += std::fabs(x * y);
        }
        if (twice) want = (want + 1) * 2, absolute *= 2;
        const double got = harness::value_of(d[(size_t(z) * m + i) * n + j]);
        harness::expect(harness::near(got, want, exactness * (absolute + 1), 1.01 * harness::unit<D>()),
                        harness::describe(std::string(name) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k), got, want));
      }
  harness::expect(dd.guards_intact() && da.guards_intact(), std::string(name) + ": guard bytes changed");
}

/// Rows, and perhaps columns, known to the compiler; columns of b contiguous along k: every weight is read once.
template <class Rows, class Columns, class A, class B, class D>
__global__ void __launch_bounds__(THREADS) few_rows(A const* a, B const* b, D* d, Columns n, int k) {
  auto ta = as_gmem(a, ct::make_layout(ct::make_shape(Rows{}, k), ct::make_stride(k, ct::Int<1>{})));
  auto tb = as_gmem(b, ct::make_layout(ct::make_shape(k, n), ct::make_stride(ct::Int<1>{}, k)));
  auto td = as_gmem(d, ct::make_layout(ct::make_shape(Rows{}, n), ct::make_stride(int(n), ct::Int<1>{})));
  ops::matmul(ta, tb, td, nullptr);
}

template <class Rows, class Columns, class A, class B, class D>
void check_few(char const* name, Columns columns, int k, size_t shift, int blocks) {
  const int m = Rows::value, n = columns;
  auto a = harness::Random(k).values<A>(size_t(m) * k, -2, 2);
  auto b = harness::Random(n).values<B>(size_t(n) * k, -2, 2);
  Buffer<A> da(a, shift);
  Buffer<B> db(b, shift);
  Buffer<D> dd(size_t(m) * n, shift);
  few_rows<Rows><<<blocks, THREADS>>>(da.data(), db.data(), dd.data(), columns, k);
  CHECK_CUDA(cudaGetLastError());
  auto d = dd.host();
  const double exactness = std::is_same<A, double>::value ? 1e-14 : is_real_v<A> ? 1e-6 : 0;
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double want = 0, absolute = 0;
      for (int p = 0; p < k; ++p) {
        const double t = harness::value_of(a[size_t(i) * k + p]) * harness::value_of(b[size_t(j) * k + p]);
        want += t, absolute += std::fabs(t);
      }
      const double got = harness::value_of(d[size_t(i) * n + j]);
      harness::expect(harness::near(got, want, exactness * (absolute + 1), 1.01 * harness::unit<D>()),
                      harness::describe(std::string(name) + " few rows, k " + std::to_string(k), got, want));
    }
  harness::expect(dd.guards_intact(), std::string(name) + ": guard bytes changed");
}

template <class Rows, class A, class B, class D>
void few(char const* name) {
  check_few<Rows, int, A, B, D>(name, 70, 264, 0, 3);
  check_few<Rows, int, A, B, D>(name, 33, 37, 1, 1);
  if (harness::quick()) return;
  check_few<Rows, int, A, B, D>(name, 513, 2080, 0, 7);
  check_few<Rows, ct::Int<96>, A, B, D>(name, ct::Int<96>{}, 1024, 0, 2);
  check_few<Rows, ct::Int<8195>, A, B, D>(name, ct::Int<8195>{}, 520, 0, 9);
}

template <Order OA, Order OB, class A, class B, class D>
void sizes(char const* name) {
  check<OA, OB, A, B, D>(name, 1, 1, 1, 1, 0, 1);
  check<OA, OB, A, B, D>(name, 1, 128, 128, 128, 0, 4);
  check<OA, OB, A, B, D>(name, 1, 17, 33, 65, 0, 2);
  if (harness::quick()) return;
  check<OA, OB, A, B, D>(name, 1, 136, 200, 320, 0, 3);
  check<OA, OB, A, B, D>(name, 1, 257, 129, 71, 1, 7);
  check<OA, OB, A, B, D>(name, 3, 65, 72, 40, 0, 5);
  check<OA, OB, A, B, D>(name, 2, 264, 520, 456, 0, 3);
}

/// Few tiles and a long k that the compiler knows: blocks of a pair take a tile together, each half of its k.
template <Order OA, Order OB, class A, class B, class D>
void long_k(char const* name) {
  check<OA, OB, A, B, D>(name, 1, ct::Int<72>{}, ct::Int<264>{}, ct::Int<4104>{}, 0, 1);
  if (harness::quick()) return;
  check<OA, OB, A, B, D>(name, 1, ct::Int<200>{}, ct::Int<520>{}, ct::Int<4168>{}, 0, 5, true);  // turns of three pairs
  check<OA, OB, A, B, D>(name, 3, ct::Int<136>{}, ct::Int<200>{}, ct::Int<4096>{}, 0, 8);
}

int main() {
  // B's "rows" are its columns n: order k of a (K, N) row-major operand runs along n.
  sizes<Order::k, Order::k, bf16, bf16, bf16>("bf16 nn");
  sizes<Order::k, Order::rows, bf16, bf16, float>("bf16 nt");
  sizes<Order::rows, Order::k, f16, f16, f16>("f16 tn");
  sizes<Order::rows, Order::rows, f16, f16, float>("f16 tt");
  sizes<Order::unknown, Order::unknown, bf16, bf16, float>("bf16 unknown strides");
  sizes<Order::k, Order::rows, fp8e4m3, fp8e4m3, bf16>("fp8e4m3");
  sizes<Order::k, Order::k, fp8e5m2, bf16, float>("fp8e5m2 by bf16");
  sizes<Order::k, Order::k, float, float, float>("f32");
  sizes<Order::rows, Order::rows, double, double, double>("f64");
  sizes<Order::k, Order::k, int32_t, int32_t, int32_t>("i32");
  sizes<Order::k, Order::rows, int8_t, int8_t, int32_t>("i8");
  check<Order::k, Order::k, bf16, bf16, float>("epilogue bf16", 1, 100, 100, 100, 0, 4, true);
  check<Order::k, Order::k, float, float, float>("epilogue f32", 1, 100, 100, 100, 0, 4, true);
  check<Order::k, Order::k, bf16, bf16, float>("empty k", 1, 40, 50, 0, 0, 2);
#if THREADS == 288
  long_k<Order::k, Order::k, bf16, bf16, bf16>("bf16 nn, long k");
  long_k<Order::rows, Order::rows, f16, f16, float>("f16 tt, long k");
#endif
#if THREADS == 256 || THREADS == 64
  few<ct::Int<1>, bf16, bf16, bf16>("bf16, one row");
  few<ct::Int<5>, f16, f16, float>("f16, five rows");
  few<ct::Int<8>, bf16, fp8e4m3, float>("bf16 by fp8e4m3, eight rows");
  few<ct::Int<2>, double, double, double>("f64, two rows");
  few<ct::Int<3>, int8_t, int8_t, int32_t>("i8, three rows");
#endif
  return harness::finish("matmul");
}
