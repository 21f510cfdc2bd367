// ops::grouped_matmul: groups of no, one and many rows, rows past the last group, against float64 sums on the host.
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

#include "views.h"

using namespace tilefoundry;
using namespace views;
using harness::Buffer;
using harness::value_of;

template <class X, class W, class I, class D>
__global__ void __launch_bounds__(THREADS)
    grouped_kernel(View<X const, 2> x, View<W const, 3> w, View<I const, 1> offsets, View<D, 2> dst) {
  __shared__ alignas(1024) char workspace[ops::matmul_bytes<X, W, THREADS>()];
  ops::grouped_matmul(x, w, offsets, dst, workspace);
}

template <class X, class W, class I, class D>
void check(std::string const& name, std::vector<I> const& offsets, index_t rows, index_t columns, index_t inner,
           bool transposed = false) {
  const index_t groups = index_t(offsets.size()) - 1;
  auto xp = dense<2>({rows, inner});
  auto wp = transposed ? place<3>({groups, inner, columns}, {0, 2, 1}) : dense<3>({groups, inner, columns});
  auto dp = dense<2>({rows, columns}, transposed ? 2 : 1);
  auto x = values<X>(xp, 1, -2, 2);
  auto w = values<W>(wp, 2, -2, 2);
  Buffer<X> dx(x);
  Buffer<W> dw(w);
  Buffer<I> numbers(offsets);
  const double exact = std::is_same<X, double>::value ? 1e-14 : is_real_v<X> ? 1e-6 : 0;
  for (int blocks : {1, 3, 29}) {
    Buffer<D> dst(dp.span);
    grouped_kernel<X, W, I, D><<<blocks, THREADS>>>(xp.template on<X const>(dx.data()), wp.template on<W const>(dw.data()),
                                                    dense<1>({groups + 1}).template on<I const>(numbers.data()),
                                                    dp.on(dst.data()));
    CHECK_CUDA(cudaGetLastError());
    compare<D>("grouped_matmul " + name, dst, dp, exact * double(4 * inner + 1), 1.01 * harness::unit<D>(),
               [&](index_t, index_t const* c) {
                 index_t e = 0;
                 while (e < groups && c[0] >= index_t(offsets[e + 1])) ++e;
                 double total = 0;
                 for (index_t k = 0; e < groups && k < inner; ++k)
                   total += value_of(x[c[0] * inner + k]) * value_of(w[wp.offset((e * inner + k) * columns + c[1])]);
                 return total;
               });
  }
}

template <class X, class W, class D>
void sizes(std::string const& name) {
  check<X, W, int32_t, D>(name + " one row", {0, 1}, 1, 1, 1);
  check<X, W, int64_t, D>(name + " empty groups", {0, 0, 5, 5, 12}, 12, 33, 65);
  check<X, W, int64_t, D>(name + " rows left over", {0, 7, 17}, 23, 17, 31, true);
  check<X, W, int32_t, D>(name + " no rows at all", {0, 0, 0}, 9, 8, 8);
  if (harness::quick()) return;
  check<X, W, int32_t, D>(name + " one group of all", {0, 0, 130}, 130, 72, 136);
  check<X, W, int64_t, D>(name + " many", {0, 1, 65, 65, 194, 257}, 260, 129, 71, true);
}

int main() {
  sizes<bf16, bf16, bf16>("bf16");
  sizes<f16, f16, float>("f16");
  sizes<bf16, fp8e4m3, float>("bf16 by fp8e4m3");
  sizes<float, float, float>("f32");
  sizes<double, double, double>("f64");
  return harness::finish("grouped");
}
