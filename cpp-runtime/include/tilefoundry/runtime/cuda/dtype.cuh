/// \file dtype.cuh
/// Element types by their IR names, and the conversions between them.
///
/// The same names and rules as on the CPU: small floats are computed in float, conversions round to nearest even,
/// fp8e4m3 overflows to NaN, fp8e5m2, f16 and bf16 to infinity, f4e2m1 saturates, float to integer truncates and saturates.
#pragma once

#include <cute/numeric/numeric_types.hpp>

#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {

using f32 = float;
using f64 = double;
using i8 = int8_t;
using u8 = uint8_t;
using i16 = int16_t;
using i32 = int32_t;
using i64 = int64_t;
using f16 = cutlass::half_t;
using bf16 = cutlass::bfloat16_t;
using fp8e4m3 = cutlass::float_e4m3_t;
using fp8e5m2 = cutlass::float_e5m2_t;
using f8e8m0 = cutlass::float_ue8m0_t;

/// One value per byte (low nibble), as on the CPU; CuTe's own type for it packs two.
struct f4e2m1 {
  uint8_t storage;
  static CUTE_HOST_DEVICE f4e2m1 bitcast(uint8_t bits) { return f4e2m1{bits}; }
};

template <class T>
inline constexpr bool is_small_float_v =
    stdx::is_same_v<T, f16> || stdx::is_same_v<T, bf16> || stdx::is_same_v<T, fp8e4m3> || stdx::is_same_v<T, fp8e5m2> ||
    stdx::is_same_v<T, f8e8m0> || stdx::is_same_v<T, f4e2m1>;
template <class T>
inline constexpr bool is_real_v = is_small_float_v<T> || stdx::is_same_v<T, float> || stdx::is_same_v<T, double>;

/// The type in which one value is computed, and the one in which many are accumulated.
template <class T>
using compute_t = stdx::conditional_t<is_small_float_v<T>, float, T>;
template <class T>
using accumulate_t =
    stdx::conditional_t<stdx::is_same_v<T, double>, double, stdx::conditional_t<is_real_v<T>, float, int64_t>>;

namespace detail {

CUTE_HOST_DEVICE uint32_t float_bits(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return bits;
#endif
}

CUTE_HOST_DEVICE float bits_float(uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
#endif
}

/// Storage of a byte-sized float from its bits.
template <class T>
CUTE_HOST_DEVICE T from_byte(uint8_t bits) {
  return T::bitcast(bits);
}

/// Magnitude code of a float below 32 bits with E exponent and M mantissa bits (see the CPU surface).
template <int E, int M>
CUTE_HOST_DEVICE uint32_t round_magnitude(uint32_t magnitude) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr uint32_t min_normal = static_cast<uint32_t>(128 - bias) << 23;
  constexpr uint32_t magic = static_cast<uint32_t>(151 - bias - M) << 23;
  const uint32_t rounded = magnitude + ((1u << (22 - M)) - 1) + ((magnitude >> (23 - M)) & 1u);
  const uint32_t normal = (rounded >> (23 - M)) - (static_cast<uint32_t>(127 - bias) << M);
  const uint32_t subnormal = float_bits(bits_float(magnitude) + bits_float(magic)) - magic;
  return magnitude < min_normal ? subnormal : normal;
}

template <class T>
CUTE_HOST_DEVICE T narrow_float(float x) {
  const uint32_t u = float_bits(x), magnitude = u & 0x7fffffffu;
  if constexpr (stdx::is_same_v<T, fp8e4m3>) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
    // The instruction saturates; what lies above the last value's rounding interval is NaN instead.
    return magnitude > 0x43e80000u ? from_byte<T>(static_cast<uint8_t>(0x7fu | (u >> 31) << 7)) : T(x);
#else
    uint32_t code = round_magnitude<4, 3>(magnitude);
    code = code > 0x7eu ? 0x7fu : code;
    return from_byte<T>(static_cast<uint8_t>(code | (u >> 31) << 7));
#endif
  } else if constexpr (stdx::is_same_v<T, fp8e5m2>) {
    uint32_t code = round_magnitude<5, 2>(magnitude);
    code = code > 0x7cu ? 0x7cu : code;
    code = magnitude > 0x7f800000u ? 0x7eu : magnitude == 0x7f800000u ? 0x7cu : code;
    return from_byte<T>(static_cast<uint8_t>(code | (u >> 31) << 7));
  } else if constexpr (stdx::is_same_v<T, f8e8m0>) {
    const uint32_t exponent = magnitude >> 23, rest = magnitude & 0x7fffffu;
    const uint32_t up = (rest > 0x400000u || (rest == 0x400000u && exponent > 0)) ? 1u : 0u;
    // One less puts zero (wrapped), what is not finite and everything with a sign at or above this bound.
    return from_byte<T>(static_cast<uint8_t>(u - 1u >= 0x7f7fffffu ? 0xffu : exponent + up));
  } else if constexpr (stdx::is_same_v<T, f4e2m1>) {
    const uint32_t code = round_magnitude<2, 1>(magnitude);
    return from_byte<T>(static_cast<uint8_t>((code > 7u ? 7u : code) | (u >> 31) << 3));
  } else {
    return T(x);
  }
}

/// A float from which a small float can be rounded as if from `x` itself: where `x` lies between two floats, the one of
/// them whose last bit is set. A second rounding then never mistakes it for a tie. Boldo and Melquiond, "Emulation of
/// FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
template <class From>
CUTE_HOST_DEVICE float odd_float(From x) {
  if constexpr (stdx::is_integral_v<From> && sizeof(From) == 8) {
    // A double keeps the first 53 bits, the last of these whether anything followed.
    const bool negative = x < From(0);
    const uint64_t magnitude = negative ? uint64_t{0} - static_cast<uint64_t>(x) : static_cast<uint64_t>(x);
    const uint64_t rest = magnitude & 0x7ffu;
    const uint64_t kept = magnitude >> 53 ? (magnitude - rest) | (rest != 0 ? 0x800u : 0u) : magnitude;
    const float out = odd_float(static_cast<double>(kept));
    return negative ? -out : out;
  } else if constexpr (stdx::is_integral_v<From> && sizeof(From) == 4) {
    return odd_float(static_cast<double>(x));
  } else if constexpr (stdx::is_same_v<From, double>) {
    const float nearest = static_cast<float>(x);
    const uint32_t u = float_bits(nearest);
    const double back = nearest;
    const uint32_t toward_zero = u - ((back < 0 ? -back : back) > (x < 0 ? -x : x) ? 1u : 0u);
    return bits_float(back == x || x != x ? u : toward_zero | 1u);
  } else {
    return static_cast<float>(x);
  }
}

template <class T>
CUTE_HOST_DEVICE float widen_float(T x) {
  if constexpr (stdx::is_same_v<T, f8e8m0>) {
    const uint32_t e = x.storage;
    return bits_float(e == 0xffu ? 0x7fc00000u : e == 0 ? 0x00400000u : e << 23);
  } else if constexpr (stdx::is_same_v<T, f4e2m1>) {
    const uint32_t code = x.storage & 7u;
    const float magnitude = bits_float(code << 22) * bits_float(253u << 23);
    return (x.storage & 8u) ? -magnitude : magnitude;
  } else {
    return static_cast<float>(x);
  }
}

}  // namespace detail

/// The value in its compute type.
template <class T>
CUTE_HOST_DEVICE compute_t<T> widen(T x) {
  if constexpr (is_small_float_v<T>) {
    return detail::widen_float(x);
  } else {
    return x;
  }
}

/// Convert a computed or stored value to T, rounding once.
template <class T, class From>
CUTE_HOST_DEVICE T convert(From from) {
  if constexpr (stdx::is_same_v<T, From>) {
    return from;
  } else if constexpr (is_small_float_v<From>) {
    return convert<T>(detail::widen_float(from));
  } else if constexpr (is_small_float_v<T>) {
    return detail::narrow_float<T>(detail::odd_float(from));
  } else if constexpr (stdx::is_same_v<T, bool>) {
    return from != From(0);
  } else if constexpr (stdx::is_integral_v<T> && stdx::is_floating_point_v<From>) {
    constexpr From low = stdx::is_signed_v<T> ? -static_cast<From>(uint64_t{1} << (8 * sizeof(T) - 1)) : From(0);
    constexpr From high = From(2) * static_cast<From>(uint64_t{1} << (8 * sizeof(T) - 1 - stdx::is_signed_v<T>));
    constexpr T top = static_cast<T>(~(uint64_t{stdx::is_signed_v<T>} << (8 * sizeof(T) - 1)));
    if (from != from) return T(0);
    return from >= high ? top : from < low ? static_cast<T>(low) : static_cast<T>(from);
  } else {
    return static_cast<T>(from);
  }
}

}  // namespace tilefoundry
