/// \file order.h
/// Floats as integers in the same order, so that a loop that looks for an extreme is a reduction over integers:
/// compilers vectorise that without being told to forget about NaN.
#pragma once

#include <tilefoundry/runtime/cpu/dtype.h>

namespace tilefoundry {
namespace detail {

template <class Integer, class Float>
inline Integer ordered_bits(Float x) {
  constexpr int sign = static_cast<int>(sizeof(Integer)) * 8 - 1;
  constexpr Integer magnitude = static_cast<Integer>(~(static_cast<std::make_unsigned_t<Integer>>(1) << sign));
  const Integer bits = bit_copy<Integer>(x);
  return bits ^ ((bits >> sign) & magnitude);
}

/// Ordered bits of negative infinity.
constexpr std::uint32_t lowest = 0x807fffffu;

inline float from_ordered(std::uint32_t ordered) {
  return bit_copy<float>(ordered ^ (ordered >> 31 != 0 ? 0x7fffffffu : 0u));
}

}  // namespace detail

/// Key of `x` for a maximum: keys compare as the floats do, -0 comes before 0, and every NaN is above all.
///
/// Ordered bits put NaNs with their sign set below negative infinity. Counted without a sign from there, they come to
/// lie above everything, and no value has to be tested.
inline std::uint32_t key_for_max(float x) {
  return static_cast<std::uint32_t>(detail::ordered_bits<std::int32_t>(x)) - detail::lowest;
}

/// Key of `x` for a minimum: as above, but every NaN is below all.
inline std::uint32_t key_for_min(float x) {
  return static_cast<std::uint32_t>(detail::ordered_bits<std::int32_t>(x)) + detail::lowest;
}

/// The float whose key for a maximum is `key`; the key of a NaN gives a NaN.
inline float from_key_for_max(std::uint32_t key) { return detail::from_ordered(key + detail::lowest); }

/// The float whose key for a minimum is `key`; the key of a NaN gives a NaN.
inline float from_key_for_min(std::uint32_t key) { return detail::from_ordered(key - detail::lowest); }

// Chips compare 64-bit integers with their sign alone, so a NaN among doubles is made one key.
inline std::int64_t key_for_max(double x) {
  // Written without a choice: as one it would become a jump, and the loop around it scalar.
  const std::int64_t missing = -static_cast<std::int64_t>(x != x);
  return (detail::ordered_bits<std::int64_t>(x) & ~missing) | (INT64_C(0x7ff8000000000000) & missing);
}

inline std::int64_t key_for_min(double x) { return ~key_for_max(-x); }

inline double from_key_for_max(std::int64_t key) {
  return detail::bit_copy<double>(key ^ ((key >> 63) & INT64_C(0x7fffffffffffffff)));
}

inline double from_key_for_min(std::int64_t key) { return from_key_for_max(key); }

}  // namespace tilefoundry
