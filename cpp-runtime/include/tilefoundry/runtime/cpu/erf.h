/// \file erf.h
/// The error function for float without branches and calls, so that loops over it vectorise.
#pragma once

#include <tilefoundry/runtime/cpu/math.h>

namespace tilefoundry {
namespace math {

/// erf(x), at most 2 ulp. Below 0.92 an odd polynomial; above, 1 - exp of a polynomial fitted to -log(erfc).
inline float erf(float x) {
  const float a = x < 0.0f ? -x : x;
  const float s = x * x;
  float p = 8.409920781447138e-05f;
  p = p * s - 0.0008152627999970457f;
  p = p * s + 0.005201960234006394f;
  p = p * s - 0.02685979859990482f;
  p = p * s + 0.11283703314874874f;
  p = p * s - 0.3761263429561587f;
  p = p * s + 1.128379166702889f;
  const float small = x * p;
  const float t = a > 4.0f ? 4.0f : a;
  float q = 2.116190637138946e-05f;
  q = q * t - 0.00043521888446591735f;
  q = q * t + 0.004174643012575066f;
  q = q * t - 0.025128624567382903f;
  q = q * t + 0.10829394659353961f;
  q = q * t + 0.633334653045892f;
  q = q * t + 1.129520823318419f;
  q = q * t - 0.0001758745588933408f;
  const float large = 1.0f - exp(-q);
  const float y = a < 0.92f ? small : (x < 0.0f ? -large : large);
  return x != x ? x : y;
}

inline double erf(double x) { return std::erf(x); }

}  // namespace math
}  // namespace tilefoundry
