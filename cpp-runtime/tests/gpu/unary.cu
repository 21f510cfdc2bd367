// Unary family, clamp, copy_n and fill against float64 host formulas.
#include <tilefoundry/runtime.h>

#include "tiles.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

template <class Op>
struct Unary {
  Op op;
  template <class S, class D>
  __device__ void operator()(S const& s, D& d) const {
    ops::unary(op, s, d);
  }
};

template <class S, class D, class F, class Oracle>
void check_unary(char const* name, F f, double low, double high, double tolerance, Oracle oracle) {
  for (int n : sizes())
    for (size_t shift : {0, 1}) {
      auto in = harness::Random(n + shift).values<S>(n, low, high);
      Buffer<S> src(in, shift);
      Buffer<D> dst(n, shift);
      const int threads = 64, blocks = (n + threads * kPerThread - 1) / (threads * kPerThread);
      unary_kernel<<<blocks, threads>>>(src.data(), dst.data(), n, f);
      auto out = dst.host();
      for (int i = 0; i < n; ++i) {
        const double want = oracle(harness::value_of(in[i]));
        const double got = harness::value_of(out[i]);
        const double bound = tolerance * 6e-8 + 1.01 * harness::unit<D>();
        harness::expect(harness::near(got, want, 1e-6 * tolerance * 6e-2 + 1e-38, std::is_same<S, double>::value ? 1e-13 : bound),
                        harness::describe(std::string(name) + " n=" + std::to_string(n), got, want));
      }
      harness::expect(dst.guards_intact() && src.guards_intact(), std::string(name) + ": guard bytes changed");
    }
}

#define UNARY(tag, low, high, ulp, formula)                                                                  \
  {                                                                                                          \
    auto oracle = [](double x) -> double { return formula; };                                                \
    check_unary<float, float>(#tag " f32", Unary<ops::tag##_op>{}, low, high, ulp, oracle);                  \
    check_unary<bf16, bf16>(#tag " bf16", Unary<ops::tag##_op>{}, low, high, ulp, oracle);                   \
    check_unary<f16, float>(#tag " f16 to f32", Unary<ops::tag##_op>{}, low, high, ulp + 40, oracle);        \
    check_unary<float, float>(#tag " approximate", Unary<ops::approximate<ops::tag##_op>>{}, low, high, ulp + 40, oracle); \
    if (!harness::quick()) check_unary<double, double>(#tag " f64", Unary<ops::tag##_op>{}, low, high, ulp, oracle); \
  }

void unary_cases() {
  UNARY(neg, -9, 9, 1, -x)
  UNARY(abs, -9, 9, 1, std::fabs(x))
  UNARY(square, -9, 9, 1, x * x)
  UNARY(sqrt, 0, 9, 2, std::sqrt(x))
  UNARY(rsqrt, 0.01, 9, 4, 1 / std::sqrt(x))
  UNARY(exp, -20, 20, 4, std::exp(x))
  UNARY(exp2, -20, 20, 4, std::exp2(x))
  UNARY(log, 0.01, 9, 4, std::log(x))
  UNARY(log2, 0.01, 9, 4, std::log2(x))
  UNARY(sin, -6, 6, 4, std::sin(x))
  UNARY(cos, -6, 6, 4, std::cos(x))
  UNARY(erf, -3, 3, 4, std::erf(x))
  UNARY(tanh, -6, 6, 8, std::tanh(x))
  UNARY(ceil, -9, 9, 0, std::ceil(x))
  UNARY(floor, -9, 9, 0, std::floor(x))
  UNARY(round, -9, 9, 0, std::nearbyint(x))
  UNARY(relu, -9, 9, 0, x < 0 ? 0 : x)
  UNARY(sigmoid, -9, 9, 8, 1 / (1 + std::exp(-x)))
  UNARY(silu, -9, 9, 8, x / (1 + std::exp(-x)))
  UNARY(gelu, -3, 3, 40, 0.5 * x * std::erfc(-x * 0.70710678118654752440))
  UNARY(gelu_tanh, -3, 3, 200, 0.5 * x * (1 + std::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
  UNARY(softplus, -9, 9, 8, std::log1p(std::exp(x)))
  check_unary<float, bool>("logical_not", Unary<ops::logical_not_op>{}, -1, 1, 0, [](double x) { return double(x == 0); });
  check_unary<int32_t, int32_t>("abs i32", Unary<ops::abs_op>{}, -90, 90, 0, [](double x) { return std::fabs(x); });
  check_unary<int32_t, int32_t>("neg i32", Unary<ops::neg_op>{}, -90, 90, 0, [](double x) { return -x; });
}

struct Clamp {
  template <class S, class D>
  __device__ void operator()(S const& s, D& d) const {
    ops::clamp(s, d, -1.5f, 2.0f);
  }
};
struct CopyPart {
  template <class S, class D>
  __device__ void operator()(S const& s, D& d) const {
    ops::copy_n(s, d, int(ct::size(d)));
  }
};
struct Fill {
  template <class S, class D>
  __device__ void operator()(S const&, D& d) const {
    ops::fill(d, 2.5f);
  }
};

/// A count below the tile's size masks its tail; one thread a count.
__global__ void copy_counts(float const* src, float* dst) {
  const int count = threadIdx.x;
  auto d = as_gmem(dst + 8 * count, ct::Layout<ct::Int<8>>{});
  ops::copy_n(as_gmem(src + 8 * count, ct::Layout<ct::Int<8>>{}), d, count);
}

void count_cases() {
  auto in = harness::Random(5).values<float>(8 * 9, -9, 9);
  Buffer<float> src(in), dst(in.size());
  copy_counts<<<1, 9>>>(src.data(), dst.data());
  CHECK_CUDA(cudaGetLastError());
  auto got = dst.host();
  for (int count = 0; count < 9; ++count)
    for (int i = 0; i < 8; ++i) {
      const float value = got[8 * count + i];
      harness::expect(i < count ? value == in[8 * count + i] : std::isnan(value), "copy_n of " + std::to_string(count));
    }
  harness::expect(dst.guards_intact(), "copy_n: guard bytes changed");
}

int main() {
  unary_cases();
  count_cases();
  auto clamped = [](double x) { return x < -1.5 ? -1.5 : x > 2 ? 2 : x; };
  check_unary<float, float>("clamp", Clamp{}, -9, 9, 0, clamped);
  check_unary<float, float>("copy_n", CopyPart{}, -9, 9, 0, [](double x) { return x; });
  check_unary<float, bf16>("fill", Fill{}, -9, 9, 0, [](double) { return 2.5; });
  return harness::finish("unary");
}
