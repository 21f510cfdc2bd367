// Epilogues of ops::matmul that take several sums together: each element is handed over once, in packs that lie where
// they may, with the sum that float64 on the host gives.
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

#include <algorithm>

#include "harness.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

constexpr int dynamic_bytes = THREADS == 288 ? 227 * 1024 : 0;

/// `widths[row, column]`: how many sums came together with this one; `times`: how often it came.
template <int Width, class T>
__global__ void __launch_bounds__(THREADS)
    kernel(T const* a, T const* b, float* sums, int* widths, int* times, int m, int n, int k, bool wide) {
  auto ta = as_gmem(a, ct::make_layout(ct::make_shape(m, k), ct::make_stride(k, ct::Int<1>{})));
  auto tb = as_gmem(b, ct::make_layout(ct::make_shape(k, n), ct::make_stride(ct::Int<1>{}, k)));
  auto td = as_gmem(sums, ct::make_layout(ct::make_shape(m, n), ct::make_stride(n, ct::Int<1>{})));
#if THREADS == 288
  extern __shared__ __align__(1024) char workspace[];
#else
  __shared__ alignas(1024) char workspace[ops::matmul_workspace_bytes<decltype(ta), decltype(tb), THREADS>()];
#endif
  auto const store = [&](auto const& d, int row, int column, auto const& pack) {
    constexpr int together = sizeof(pack.value) / sizeof(pack.value[0]);
    for (int i = 0; i < together; ++i) {
      const int at = row * n + column + i;
      d(row, column + i) = pack.value[i] + 1;
      // A pack starts at a multiple of its width and ends inside its row; anything else is marked.
      widths[at] = column % together == 0 && column + together <= n ? together : -1;
      atomicAdd(times + at, 1);
    }
  };
  ops::matmul(ta, tb, td, workspace, ops::make_packed_epilogue<Width>(store, wide));
}

template <int Width, class T>
void check(char const* name, int m, int n, int k, int blocks, bool wide) {
  auto a = harness::Random(m).values<T>(size_t(m) * k, -2, 2), b = harness::Random(n).values<T>(size_t(n) * k, -2, 2);
  Buffer<T> da(a), db(b);
  Buffer<float> sums(size_t(m) * n);
  Buffer<int> widths(size_t(m) * n), times(std::vector<int>(size_t(m) * n, 0));
  if (dynamic_bytes > 0)
    CHECK_CUDA(cudaFuncSetAttribute(kernel<Width, T>, cudaFuncAttributeMaxDynamicSharedMemorySize, dynamic_bytes));
  kernel<Width, T><<<blocks, THREADS, dynamic_bytes>>>(da.data(), db.data(), sums.data(), widths.data(), times.data(), m, n, k, wide);
  CHECK_CUDA(cudaGetLastError());
  auto got = sums.host();
  auto together = widths.host(), often = times.host();
  const std::string what = std::string(name) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      double want = 1, absolute = 1;
      for (int p = 0; p < k; ++p) {
        const double t = harness::value_of(a[size_t(i) * k + p]) * harness::value_of(b[size_t(j) * k + p]);
        want += t, absolute += std::fabs(t);
      }
      const size_t at = size_t(i) * n + j;
      harness::expect(harness::near(got[at], want, 1e-6 * absolute, 1e-7), harness::describe(what, got[at], want));
      harness::expect(often[at] == 1, what + ": an element was handed over " + std::to_string(often[at]) + " times");
      harness::expect(together[at] == 1 || (wide && together[at] == Width), what + ": a pack that may not be");
    }
  // The copy engine's tier has the packs to give.
  if (THREADS == 288 && sizeof(T) == 2 && wide && n >= Width && k % 8 == 0)
    harness::expect(std::count(together.begin(), together.end(), Width) > 0, what + ": never a wide pack");
  harness::expect(sums.guards_intact() && widths.guards_intact() && times.guards_intact(), what + ": guard bytes changed");
}

template <int Width, class T>
void sizes(char const* name) {
  for (bool wide : {false, true}) {
    check<Width, T>(name, 1, 1, 8, 1, wide);
    check<Width, T>(name, 17, 33, 64, 2, wide);
    check<Width, T>(name, 130, 264, 72, 4, wide);
    if (!harness::quick()) check<Width, T>(name, 257, 519, 136, 3, wide);
  }
}

int main() {
  sizes<1, bf16>("epilogue of one bf16 sum");
  sizes<4, bf16>("epilogue of four bf16 sums");
  sizes<8, bf16>("epilogue of eight bf16 sums");
  sizes<8, f16>("epilogue of eight f16 sums");
  sizes<4, float>("epilogue of four f32 sums");
  return harness::finish("epilogue");
}
