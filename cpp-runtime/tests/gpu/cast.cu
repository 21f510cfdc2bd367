// Casts between element types, against a nearest-even search over the target's decoded codes.
#include <tilefoundry/runtime.h>

#include "tiles.h"

using namespace tilefoundry;
using harness::Buffer;
namespace ct = cute;

struct Format {
  int exponent, mantissa;
  bool infinity, nan_top;  // e4m3fn has one NaN code at the top and no infinity
};

double decode(Format f, unsigned code) {
  const int bias = (1 << (f.exponent - 1)) - 1;
  const unsigned e = code >> f.mantissa & ((1u << f.exponent) - 1), m = code & ((1u << f.mantissa) - 1);
  const double sign = code >> (f.exponent + f.mantissa) ? -1 : 1;
  if (f.infinity && e == (1u << f.exponent) - 1) return m ? NAN : sign * INFINITY;
  if (f.nan_top && e == (1u << f.exponent) - 1 && m == (1u << f.mantissa) - 1) return NAN;
  const double scale = std::ldexp(1.0, int(e ? e : 1) - bias - f.mantissa);
  return sign * scale * (e ? (1u << f.mantissa) + m : m);
}

/// Nearest value of the format, ties to the even code; the step above the largest counts as a neighbour.
double round_to(Format f, double x) {
  if (std::isnan(x)) return NAN;
  const unsigned codes = 1u << (f.exponent + f.mantissa);
  const double a = std::fabs(x);
  unsigned low = 0, high = codes - 1;
  while (low < high) {  // largest finite code not above a
    const unsigned middle = (low + high + 1) / 2;
    const double v = decode(f, middle);
    if (!std::isnan(v) && !std::isinf(v) && v <= a) low = middle; else high = middle - 1;
  }
  const double below = decode(f, low);
  double above = decode(f, low + 1);
  const bool overflow = low + 1 >= codes || std::isnan(above) || std::isinf(above);
  if (overflow) above = below + (below - decode(f, low - 1));
  const bool up = a - below > above - a || (a - below == above - a && (low & 1));
  double out = up ? above : below;
  if (up && overflow) out = f.infinity ? INFINITY : f.nan_top ? NAN : below;
  return std::copysign(out, x);
}

/// Nearest power of two from 2^-127 to 2^127, ties up; NaN for what is not positive or lies above. Between the two
/// smallest powers everything goes up, as in ml_dtypes, which looks at the bits below float's normal numbers.
double round_to_power(double x) {
  if (!(x > 0) || std::isinf(x)) return NAN;
  if (x > std::ldexp(1.0, -127) && x < std::ldexp(1.0, -126)) return std::ldexp(1.0, -126);
  int exponent;
  const double mantissa = std::frexp(x, &exponent);  // in [0.5, 1)
  const double power = std::ldexp(mantissa >= 0.75 ? 1.0 : 0.5, exponent);
  return power > std::ldexp(1.0, 127) ? NAN : std::fmax(power, std::ldexp(1.0, -127));
}

struct Cast {
  template <class S, class D>
  __device__ void operator()(S const& s, D& d) const {
    ops::cast(s, d);
  }
};

template <class S, class D>
void cast_all(char const* name, std::vector<S> const& in, double (*oracle)(double)) {
  Buffer<S> src(in);
  Buffer<D> dst(in.size());
  const int n = int(in.size()), threads = 64, blocks = (n + threads * kPerThread - 1) / (threads * kPerThread);
  unary_kernel<<<blocks, threads>>>(src.data(), dst.data(), n, Cast{});
  auto out = dst.host();
  for (int i = 0; i < n; ++i) {
    const double want = oracle(harness::value_of(in[i])), got = harness::value_of(out[i]);
    harness::expect(harness::near(got, want, 0, 0), harness::describe(std::string("cast ") + name, got, want));
  }
  harness::expect(dst.guards_intact(), std::string(name) + ": guard bytes changed");
}

void cast_cases() {
  std::vector<float> floats;
  for (unsigned high = 0; high < 0x10000; high += harness::quick() ? 37 : 1)
    for (unsigned low : {0u, 1u, 0x8000u, 0xffffu}) {
      const unsigned bits = high << 16 | low;
      float x;
      std::memcpy(&x, &bits, 4);
      floats.push_back(x);
    }
  cast_all<float, f16>("f32 to f16", floats, [](double x) { return round_to({5, 10, true, false}, x); });
  cast_all<float, bf16>("f32 to bf16", floats, [](double x) { return round_to({8, 7, true, false}, x); });
  cast_all<float, fp8e4m3>("f32 to fp8e4m3", floats, [](double x) { return round_to({4, 3, false, true}, x); });
  cast_all<float, fp8e5m2>("f32 to fp8e5m2", floats, [](double x) { return round_to({5, 2, true, false}, x); });
  cast_all<float, f8e8m0>("f32 to f8e8m0", floats, round_to_power);
  std::vector<float> finite;
  for (float x : floats)
    if (x == x) finite.push_back(x);
  cast_all<float, f4e2m1>("f32 to f4e2m1", finite, [](double x) { return round_to({2, 1, false, false}, x); });
  cast_all<float, int32_t>("f32 to i32", floats, [](double x) {
    return std::isnan(x) ? 0 : x >= 2147483648.0 ? 2147483647.0 : x < -2147483648.0 ? -2147483648.0 : std::trunc(x);
  });
  cast_all<float, int8_t>("f32 to i8", floats, [](double x) {
    return std::isnan(x) ? 0 : x >= 128 ? 127.0 : x < -128 ? -128.0 : std::trunc(x);
  });
  cast_all<float, bool>("f32 to bool", floats, [](double x) { return double(x != 0); });
  cast_all<float, double>("f32 to f64", floats, [](double x) { return x; });
  std::vector<fp8e4m3> e4;
  std::vector<fp8e5m2> e5;
  std::vector<f8e8m0> e8;
  for (int i = 0; i < 256; ++i)
    e4.push_back(fp8e4m3::bitcast(i)), e5.push_back(fp8e5m2::bitcast(i)), e8.push_back(static_cast<f8e8m0>(f8e8m0::bitcast(i)));
  cast_all<fp8e4m3, float>("fp8e4m3 to f32", e4, [](double x) { return x; });
  cast_all<fp8e5m2, bf16>("fp8e5m2 to bf16", e5, [](double x) { return x; });
  for (int i = 0; i < 256; ++i) {
    harness::expect(harness::near(harness::value_of(e4[i]), decode({4, 3, false, true}, i), 0, 0), "decode fp8e4m3");
    harness::expect(harness::near(harness::value_of(e5[i]), decode({5, 2, true, false}, i), 0, 0), "decode fp8e5m2");
  }
  cast_all<f8e8m0, float>("f8e8m0 to f32", e8, [](double x) { return x; });
  harness::expect(harness::value_of(e8[0]) == std::ldexp(1.0, -127) && harness::value_of(e8[130]) == 8, "decode f8e8m0");
  std::vector<int32_t> ints = {0, 1, -1, 127, 128, -129, 255, 256, 65536, 2147483647, -2147483647 - 1};
  cast_all<int32_t, float>("i32 to f32", ints, [](double x) { return double(float(x)); });
  cast_all<int32_t, int8_t>("i32 to i8", ints, [](double x) { return double(int8_t(int64_t(x))); });
  cast_all<int32_t, int64_t>("i32 to i64", ints, [](double x) { return x; });
}

int main() {
  cast_cases();
  return harness::finish("cast");
}
