/// \file dtype.h
/// Element types by their IR names, and the bit conversions of the small floats.
///
/// f16 bf16 fp8e4m3 fp8e5m2 f8e8m0 f4e2m1 are storage only: values are computed in `compute_t` (float).
/// Conversions round to nearest even and are free of branches, so that loops over them vectorise.
/// Out of range: f16, bf16 and fp8e5m2 give infinity, fp8e4m3 gives NaN, f4e2m1 saturates. f8e8m0 holds powers of two
/// and NaN, nothing else: zero, negative and too large values give NaN, too small ones 2^-127.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tilefoundry {

namespace detail {

template <class To, class From>
inline To bit_copy(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_copy: both types must have the same size");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

/// Magnitude code of |x| in a float format with E exponent and M mantissa bits, before range handling.
template <int E, int M>
inline std::uint32_t round_magnitude(std::uint32_t magnitude) {
  constexpr int bias = (1 << (E - 1)) - 1;
  constexpr std::uint32_t min_normal = static_cast<std::uint32_t>(128 - bias) << 23;
  constexpr std::uint32_t magic = static_cast<std::uint32_t>(151 - bias - M) << 23;
  const std::uint32_t rounded = magnitude + ((1u << (22 - M)) - 1) + ((magnitude >> (23 - M)) & 1u);
  const std::uint32_t normal = (rounded >> (23 - M)) - (static_cast<std::uint32_t>(127 - bias) << M);
  // Adding a power of two whose last place is the format's smallest step makes the FPU round for us.
  const float shifted = bit_copy<float>(magnitude) + bit_copy<float>(magic);
  const std::uint32_t subnormal = bit_copy<std::uint32_t>(shifted) - magic;
  return magnitude < min_normal ? subnormal : normal;
}

/// Value of a magnitude code without its specials: subnormals come out of the same multiplication.
template <int E, int M>
inline float scale_magnitude(std::uint32_t code) {
  constexpr int bias = (1 << (E - 1)) - 1;
  const float scale = bit_copy<float>(static_cast<std::uint32_t>(254 - bias) << 23);
  return bit_copy<float>(code << (23 - M)) * scale;
}

template <int E, int M>
inline std::uint32_t encode_ieee(float x) {
  constexpr std::uint32_t infinity = ((1u << E) - 1) << M;
  const std::uint32_t u = bit_copy<std::uint32_t>(x), magnitude = u & 0x7fffffffu;
  std::uint32_t code = round_magnitude<E, M>(magnitude);
  code = code > infinity ? infinity : code;
  code = magnitude >= 0x7f800000u ? infinity : code;
  code = magnitude > 0x7f800000u ? infinity | (1u << (M - 1)) : code;
  return code | (u >> 31) << (E + M);
}

template <int E, int M>
inline float decode_ieee(std::uint32_t bits) {
  constexpr std::uint32_t infinity = ((1u << E) - 1) << M;
  const std::uint32_t code = bits & ((1u << (E + M)) - 1);
  std::uint32_t out = bit_copy<std::uint32_t>(scale_magnitude<E, M>(code));
  out |= code >= infinity ? 0x7f800000u : 0u;
  return bit_copy<float>(out | (bits >> (E + M)) << 31);
}

/// A float from which a small float can be rounded as if from `x` itself: where `x` lies between two floats, the one of
/// them whose last bit is set. A second rounding then never mistakes it for a tie. Boldo and Melquiond, "Emulation of
/// FMA and correctly rounded sums: proved algorithms using rounding to odd", 2008.
template <class From>
inline float odd_float(From x) {
  if constexpr (std::is_integral_v<From> && sizeof(From) == 8) {
    // A double keeps the first 53 bits, the last of these whether anything followed.
    const bool negative = x < From(0);
    const std::uint64_t magnitude = negative ? std::uint64_t{0} - static_cast<std::uint64_t>(x) : static_cast<std::uint64_t>(x);
    const std::uint64_t rest = magnitude & 0x7ffu;
    const std::uint64_t kept = magnitude >> 53 ? (magnitude - rest) | (rest != 0 ? 0x800u : 0u) : magnitude;
    const float out = odd_float(static_cast<double>(kept));
    return negative ? -out : out;
  } else if constexpr (std::is_integral_v<From> && sizeof(From) == 4) {
    return odd_float(static_cast<double>(x));
  } else if constexpr (std::is_same_v<From, double>) {
    const float nearest = static_cast<float>(x);
    const std::uint32_t u = bit_copy<std::uint32_t>(nearest);
    const double back = nearest;
    const std::uint32_t toward_zero = u - ((back < 0 ? -back : back) > (x < 0 ? -x : x) ? 1u : 0u);
    return bit_copy<float>(back == x || x != x ? u : toward_zero | 1u);
  } else {
    return static_cast<float>(x);
  }
}

}  // namespace detail

using f32 = float;
using f64 = double;
using i8 = std::int8_t;
using u8 = std::uint8_t;
using i16 = std::int16_t;
using i32 = std::int32_t;
using i64 = std::int64_t;

/// IEEE binary16.
struct f16 {
  std::uint16_t bits;
  f16() = default;
  explicit f16(float x) : bits(static_cast<std::uint16_t>(detail::encode_ieee<5, 10>(x))) {}
  explicit operator float() const { return detail::decode_ieee<5, 10>(bits); }
};

/// The upper half of a binary32.
struct bf16 {
  std::uint16_t bits;
  bf16() = default;
  explicit bf16(float x) {
    const std::uint32_t u = detail::bit_copy<std::uint32_t>(x);
    const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    bits = static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16) | 0x40u : rounded);
  }
  explicit operator float() const { return detail::bit_copy<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// 4 exponent, 3 mantissa bits, no infinity, one NaN per sign; largest value 448.
struct fp8e4m3 {
  std::uint8_t bits;
  fp8e4m3() = default;
  explicit fp8e4m3(float x) {
    const std::uint32_t u = detail::bit_copy<std::uint32_t>(x), magnitude = u & 0x7fffffffu;
    std::uint32_t code = detail::round_magnitude<4, 3>(magnitude);
    code = code > 0x7eu ? 0x7fu : code;
    bits = static_cast<std::uint8_t>(code | (u >> 31) << 7);
  }
  explicit operator float() const {
    const std::uint32_t code = bits & 0x7fu;
    std::uint32_t out = detail::bit_copy<std::uint32_t>(detail::scale_magnitude<4, 3>(code));
    out = code == 0x7fu ? 0x7fc00000u : out;
    return detail::bit_copy<float>(out | static_cast<std::uint32_t>(bits >> 7) << 31);
  }
};

/// 5 exponent, 2 mantissa bits, IEEE specials; largest finite value 57344.
struct fp8e5m2 {
  std::uint8_t bits;
  fp8e5m2() = default;
  explicit fp8e5m2(float x) : bits(static_cast<std::uint8_t>(detail::encode_ieee<5, 2>(x))) {}
  explicit operator float() const { return detail::decode_ieee<5, 2>(bits); }
};

/// A power of two, 2^(bits - 127), with 255 for NaN. The sign of what is converted is dropped.
struct f8e8m0 {
  std::uint8_t bits;
  f8e8m0() = default;
  explicit f8e8m0(float x) {
    const std::uint32_t u = detail::bit_copy<std::uint32_t>(x);
    const std::uint32_t exponent = u >> 23, rest = u & 0x7fffffu;
    const std::uint32_t up = (rest > 0x400000u || (rest == 0x400000u && exponent > 0)) ? 1u : 0u;
    // One less puts zero (wrapped), what is not finite and everything with a sign at or above this bound.
    bits = static_cast<std::uint8_t>(u - 1u >= 0x7f7fffffu ? 0xffu : exponent + up);
  }
  explicit operator float() const {
    const std::uint32_t e = bits;
    const std::uint32_t ordinary = e == 0 ? 0x00400000u : e << 23;
    return detail::bit_copy<float>(e == 0xffu ? 0x7fc00000u : ordinary);
  }
};

/// 2 exponent, 1 mantissa bit: 0 .5 1 1.5 2 3 4 6 and their negatives, one value per byte (low nibble).
struct f4e2m1 {
  std::uint8_t bits;
  f4e2m1() = default;
  explicit f4e2m1(float x) {
    const std::uint32_t u = detail::bit_copy<std::uint32_t>(x), magnitude = u & 0x7fffffffu;
    std::uint32_t code = detail::round_magnitude<2, 1>(magnitude);
    code = code > 7u ? 7u : code;
    bits = static_cast<std::uint8_t>(code | (u >> 31) << 3);
  }
  explicit operator float() const {
    const float magnitude = detail::scale_magnitude<2, 1>(bits & 7u);
    return (bits & 8u) ? -magnitude : magnitude;
  }
};

/// Whether T is one of the storage-only floats above.
template <class T>
struct is_small_float
    : std::bool_constant<std::is_same_v<T, f16> || std::is_same_v<T, bf16> || std::is_same_v<T, fp8e4m3> ||
                         std::is_same_v<T, fp8e5m2> || std::is_same_v<T, f8e8m0> || std::is_same_v<T, f4e2m1>> {};

/// Whether T holds real numbers: float, double or a small float.
template <class T>
inline constexpr bool is_real_v = std::is_floating_point_v<T> || is_small_float<T>::value;

/// The type in which one value of T is computed: float for small floats, T itself otherwise.
template <class T>
using compute_t = std::conditional_t<is_small_float<T>::value, float, T>;

/// The type in which many values of T are accumulated: double for double, float for other reals, i64 for integers.
template <class T>
using accumulate_t = std::conditional_t<std::is_same_v<T, double>, double,
                                        std::conditional_t<is_real_v<T>, float, std::int64_t>>;

/// Read: the value of `x` in its compute type.
template <class T>
inline compute_t<T> widen(T x) {
  return static_cast<compute_t<T>>(x);
}

/// Convert a computed or stored value to T, rounding once. Float to integer truncates and saturates, NaN gives 0;
/// integers wrap; anything to bool is `!= 0`.
template <class T, class From>
inline T convert(From from) {
  if constexpr (std::is_same_v<T, From>) {
    return from;
  } else if constexpr (is_small_float<From>::value) {
    return convert<T>(static_cast<float>(from));
  } else if constexpr (is_small_float<T>::value) {
    return T(detail::odd_float(from));
  } else if constexpr (std::is_same_v<T, bool>) {
    return from != From(0);
  } else if constexpr (std::is_integral_v<T> && std::is_floating_point_v<From>) {
    // The bounds are powers of two (or 0), hence exact in every float type.
    constexpr From low = std::is_signed_v<T> ? -static_cast<From>(std::uint64_t{1} << (8 * sizeof(T) - 1)) : From(0);
    constexpr From high = From(2) * static_cast<From>(std::uint64_t{1} << (8 * sizeof(T) - 1 - std::is_signed_v<T>));
    constexpr T top = static_cast<T>(~(std::uint64_t{std::is_signed_v<T>} << (8 * sizeof(T) - 1)));
    if (from != from) return T(0);
    return from >= high ? top : from < low ? static_cast<T>(low) : static_cast<T>(from);
  } else {
    return static_cast<T>(from);
  }
}

}  // namespace tilefoundry
