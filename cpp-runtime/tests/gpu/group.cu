// ops::matmul of right operands that share a pass, and of operands computed while they are read, against double sums on
// the host: every element's sums come together, once, at the place and batch that they belong to.
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

/// What is computed: the element of memory, doubled, and one more for each batch.
template <class T>
CUTE_HOST_DEVICE T made_of(T x, int batch) {
  return convert<T>(widen(x) * decltype(widen(x))(2) + decltype(widen(x))(batch));
}

/// Matrices in memory with their last index, or their first, contiguous.
template <bool LastFastest, class T>
__device__ auto plain(T const* x, int batches, int first, int second) {
  if constexpr (LastFastest) {
    return as_gmem(x, ct::make_layout(ct::make_shape(batches, first, second), ct::make_stride(first * second, second, ct::Int<1>{})));
  } else {
    return as_gmem(x, ct::make_layout(ct::make_shape(batches, first, second), ct::make_stride(first * second, ct::Int<1>{}, first)));
  }
}

template <bool LastFastest, class T, class Function>
__device__ auto made(int first, int second, Function const& function) {
  return ops::computed<T, LastFastest>(first, second, function);
}

/// Right operand `N` of the group: the odd ones are computed, the even ones lie in memory; `sums[n]`, one per operand.
template <int N, bool LeftComputed, bool LeftLast, bool RightLast, class T, class Sum, int Few = 0>
__global__ void __launch_bounds__(THREADS)
    kernel(T const* a, T const* b, Sum* sums, int* times, int batches, int m, int n, int k) {
  const int size = batches * k * n;
  auto at = [&](T const* x, int batch, int i, int j, int rows, int columns, bool last) {
    return x[batch * rows * columns + (last ? i * columns + j : j * rows + i)];
  };
  auto left_at = [&](int batch, int i, int kk) { return made_of(T(at(a, batch, i, kk, m, k, LeftLast)), batch); };
  auto right_at = [&](int number) {
    return [=](int batch, int kk, int j) {
      return made_of(T(b[number * size + batch * k * n + (RightLast ? kk * n + j : j * k + kk)]), batch);
    };
  };
  auto const f1 = right_at(1), f3 = right_at(3), f0 = right_at(0);
  auto left = [&] {
    if constexpr (LeftComputed) {
      return made<LeftLast, T>(m, k, left_at);
    } else {
      return plain<LeftLast>(a, batches, m, k);
    }
  }();
  auto right = [&] {
    auto const p0 = plain<RightLast>(b, batches, k, n);
    auto const p2 = plain<RightLast>(b + 2 * size, batches, k, n);
    auto const c1 = made<RightLast, T>(k, n, f1);
    if constexpr (N == 1) return ops::right_operands(made<RightLast, T>(k, n, f0));
    if constexpr (N == 2) return ops::right_operands(p0, c1);
    if constexpr (N == 3) return ops::right_operands(p0, c1, p2);
    if constexpr (N == 4) return ops::right_operands(p0, c1, p2, made<RightLast, T>(k, n, f3));
  }();
  // Few rows are known to the compiler.
  auto const rows = [&] {
    if constexpr (Few > 0) {
      return ct::Int<Few>{};
    } else {
      return m;
    }
  }();
  auto place = as_gmem(static_cast<char*>(nullptr),
                       ct::make_layout(ct::make_shape(batches, rows, n), ct::make_stride(ct::_0{}, ct::_0{}, ct::_0{})));
  constexpr int bytes = ops::group_workspace_bytes<decltype(left), decltype(right), THREADS, Few>();
  __shared__ alignas(16) char workspace[bytes];
  ops::matmul(left, right, place, workspace, [&](int batch, int i, int j, auto const& found) {
    static_assert(sizeof(found.value) / sizeof(found.value[0]) == N, "one sum per right operand");
    const int element = (batch * m + i) * n + j;
    for (int r = 0; r < N; ++r) sums[r * batches * m * n + element] = static_cast<Sum>(found.value[r]);
    atomicAdd(times + element, 1);
  });
}

template <int N, bool LeftComputed, bool LeftLast, bool RightLast, class T, class Sum, int Few = 0>
void check(char const* name, int batches, int m, int n, int k, int blocks) {
  const bool real = is_real_v<T>;
  auto a = harness::Random(m).values<T>(size_t(batches) * m * k, -2, 2);
  auto b = harness::Random(n).values<T>(size_t(N) * batches * k * n, -2, 2);
  const size_t size = size_t(batches) * m * n;
  Buffer<T> da(a), db(b);
  Buffer<Sum> dd(N * size);
  Buffer<int> times(std::vector<int>(size, 0));
  kernel<N, LeftComputed, LeftLast, RightLast, T, Sum, Few><<<blocks, THREADS>>>(da.data(), db.data(), dd.data(), times.data(), batches, m, n, k);
  CHECK_CUDA(cudaGetLastError());
  auto d = dd.host();
  auto often = times.host();
  const double exactness = std::is_same<T, double>::value ? 1e-14 : real ? 1e-6 : 0;
  const std::string what = std::string(name) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  for (int z = 0; z < batches; ++z)
    for (int i = 0; i < m; ++i)
      for (int j = 0; j < n; ++j)
        for (int r = 0; r < N; ++r) {
          double want = 0, absolute = 1;
          for (int p = 0; p < k; ++p) {
            T x = a[size_t(z) * m * k + (LeftLast ? i * k + p : p * m + i)];
            T y = b[(size_t(r) * batches + z) * k * n + (RightLast ? p * n + j : j * k + p)];
            if (LeftComputed) x = made_of(x, z);
            if (r % 2 == 1 || N == 1) y = made_of(y, z);
            want += harness::value_of(x) * harness::value_of(y);
            absolute += std::fabs(harness::value_of(x) * harness::value_of(y));
          }
          const size_t element = (size_t(z) * m + i) * n + j;
          const double got = harness::value_of(d[r * size + element]);
          harness::expect(harness::near(got, want, exactness * absolute, 1.01 * harness::unit<Sum>()),
                          harness::describe(what + " operand " + std::to_string(r), got, want));
          harness::expect(often[element] == 1, what + ": an element was handed over " + std::to_string(often[element]) + " times");
        }
  harness::expect(dd.guards_intact() && times.guards_intact(), what + ": guard bytes changed");
}

template <int N, bool LeftComputed, bool LeftLast, bool RightLast, class T, class Sum, int Few = 0>
void sizes(char const* name) {
  check<N, LeftComputed, LeftLast, RightLast, T, Sum>(name, 1, 1, 1, 1, 1);
  check<N, LeftComputed, LeftLast, RightLast, T, Sum>(name, 2, 17, 33, 65, 2);
  if (harness::quick()) return;
  check<N, LeftComputed, LeftLast, RightLast, T, Sum>(name, 1, 128, 128, 128, 3);
  check<N, LeftComputed, LeftLast, RightLast, T, Sum>(name, 3, 130, 72, 40, 5);
  check<N, LeftComputed, LeftLast, RightLast, T, Sum>(name, 1, 257, 200, 71, 4);
}

template <int N, bool LeftComputed, bool RightLast, int Few, class T, class Sum>
void few(char const* name) {
  check<N, LeftComputed, true, RightLast, T, Sum, Few>(name, 1, Few, 1, 1, 1);
  check<N, LeftComputed, true, RightLast, T, Sum, Few>(name, 2, Few, 70, 265, 3);
  if (harness::quick()) return;
  check<N, LeftComputed, true, RightLast, T, Sum, Few>(name, 1, Few, 300, 4099, 6);
}

int main() {
  sizes<1, false, true, true, bf16, float>("bf16, computed");
  sizes<2, false, true, true, bf16, float>("bf16, a pair");
  sizes<2, true, false, false, f16, float>("f16, a pair and computed rows");
  sizes<3, false, true, false, bf16, float>("bf16, three");
  sizes<4, true, true, true, f16, float>("f16, four");
  sizes<2, false, true, true, fp8e4m3, float>("fp8e4m3, a pair");
  sizes<1, true, true, false, float, float>("f32, computed");
  sizes<4, true, false, true, float, float>("f32, four");
  sizes<3, false, true, true, double, double>("f64, three");
  sizes<2, false, true, true, int8_t, int64_t>("i8, a pair");
  check<2, false, true, true, bf16, float>("empty k", 1, 40, 50, 0, 2);
  few<2, false, true, 1, bf16, float>("bf16, a pair of one row");
  few<1, true, false, 3, f16, float>("f16, three rows along k");
  few<4, false, true, 8, float, float>("f32, four of eight rows");
  few<2, true, true, 5, double, double>("f64, a pair of five rows");
  few<3, false, false, 2, int8_t, int64_t>("i8, three of two rows");
  return harness::finish("group");
}
