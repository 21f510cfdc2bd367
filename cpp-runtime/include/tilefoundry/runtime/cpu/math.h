/// \file math.h
/// Elementary functions for float, free of branches and calls, so that loops over them vectorise.
///
/// Each states its worst error in units in the last place, measured over all floats of the stated range by
/// the tests. double goes to the standard library.
#pragma once

#include <cmath>

#include <tilefoundry/runtime/cpu/dtype.h>

namespace tilefoundry {
namespace math {

/// a * b + c, in one rounding where the chip has an instruction for it; never a call.
inline float fused(float a, float b, float c) {
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/// e^x, at most 2 ulp; NaN stays NaN, overflow gives infinity, underflow passes through the subnormals.
inline float exp(float x) {
  float t = x < 90.0f ? x : 90.0f;
  t = t > -105.0f ? t : -105.0f;
  // Adding 1.5 * 2^23 rounds to an integer and leaves it in the low bits.
  const float shifted = fused(t, 1.44269504088896341f, 12582912.0f);
  const float n = shifted - 12582912.0f;
  const std::uint32_t i = detail::bit_copy<std::uint32_t>(shifted) - 0x4b400000u;
  const float r = fused(n, -1.42860682030941723212e-6f, fused(n, -0.693145751953125f, t));
  float p = 1.0f / 5040.0f;
  p = fused(p, r, 1.0f / 720.0f);
  p = fused(p, r, 1.0f / 120.0f);
  p = fused(p, r, 1.0f / 24.0f);
  p = fused(p, r, 1.0f / 6.0f);
  p = fused(p, r, 0.5f);
  p = fused(p, r, 1.0f);
  p = fused(p, r, 1.0f);
  // Two factors, because 2^i alone may leave the range of normal floats.
  const std::uint32_t half = (i >> 1) | (i & 0x80000000u);
  const float a = detail::bit_copy<float>((half + 127u) << 23);
  const float b = detail::bit_copy<float>((i - half + 127u) << 23);
  const float y = p * a * b;
  return x != x ? x : y;
}

inline double exp(double x) { return std::exp(x); }

/// tanh(x), at most 4 ulp.
inline float tanh(float x) {
  const float a = x < 0.0f ? -x : x;
  const float e = exp(2.0f * a);
  const float large = 1.0f - 2.0f / (e + 1.0f);
  const float s = x * x;
  float p = -0.00886323552f;
  p = fused(p, s, 0.0218694885f);
  p = fused(p, s, -0.0539682540f);
  p = fused(p, s, 0.133333333f);
  p = fused(p, s, -0.333333333f);
  const float small = fused(x * s, p, x);
  const float y = a < 0.45f ? small : (x < 0.0f ? -large : large);
  return x != x ? x : y;
}

inline double tanh(double x) { return std::tanh(x); }

/// 1 / (1 + e^-x), at most 4 ulp where the result is a normal float.
template <class T>
inline T sigmoid(T x) {
  const T e = exp(x < T(0) ? x : -x);
  return (x < T(0) ? e : T(1)) / (T(1) + e);
}

}  // namespace math
}  // namespace tilefoundry
