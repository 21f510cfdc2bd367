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

/// e^x, at most 2 ulp, 1 where the chip multiplies and adds in one rounding; NaN stays NaN, overflow gives infinity,
/// underflow passes through the subnormals.
///
/// x = n ln 2 + r with |r| at most ln 2 / 2; e^r by a polynomial whose coefficients, from the second on, have the least
/// relative error over that range, 2^-28.
inline float exp(float x) {
  // To [-105, 90]. The bits of negative floats, read without sign, grow with the distance from 0, those of positive
  // ones with sign likewise: an instruction each, where comparisons of floats take several.
  std::uint32_t bits = detail::bit_copy<std::uint32_t>(x);
  bits = bits < 0xc2d20000u ? bits : 0xc2d20000u;
  std::int32_t signed_bits = static_cast<std::int32_t>(bits);
  signed_bits = signed_bits < 0x42b40000 ? signed_bits : 0x42b40000;
  const float t = detail::bit_copy<float>(signed_bits);
  // Adding 1.5 * 2^23 + 254 rounds to an integer and leaves n + 254 in the lowest nine bits.
  const float shifted = fused(t, 1.44269504088896341f, 12583166.0f);
  const float n = shifted - 12583166.0f;
  const float r = fused(n, -1.42860682030941723212e-6f, fused(n, -0.693145751953125f, t));
  float p = 0.00138145394f;
  p = fused(p, r, 0.00836874545f);
  p = fused(p, r, 0.041668389f);
  p = fused(p, r, 0.166665211f);
  p = fused(p, r, 0.49999994f);
  p = fused(p, r, 1.0f);
  p = fused(p, r, 1.0f);
  // Two factors, because 2^n alone may leave the range of normal floats: the exponents of both, each with its offset
  // of 127, add up to n + 254.
  const std::uint32_t sum = detail::bit_copy<std::uint32_t>(shifted);
  const std::uint32_t half = (sum << 22) & 0x7f800000u;
  const float y = p * detail::bit_copy<float>(half) * detail::bit_copy<float>((sum << 23) - half);
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
