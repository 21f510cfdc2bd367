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

}  // namespace detail

template <class T>
using order_key_t = std::conditional_t<std::is_same_v<T, double>, std::int64_t, std::int32_t>;

/// Key of `x` for a maximum: keys compare as the floats do, -0 comes before 0, and every NaN is above all.
template <class T>
inline order_key_t<T> key_for_max(T x) {
  using K = order_key_t<T>;
  constexpr K nan = sizeof(K) == 8 ? static_cast<K>(0x7ff8000000000000) : static_cast<K>(0x7fc00000);
  // Written without a choice: as one it would become a jump, and the loop around it scalar.
  const K missing = -static_cast<K>(x != x);
  return (detail::ordered_bits<K>(x) & ~missing) | (nan & missing);
}

/// Key of `x` for a minimum: as above, but every NaN is below all.
template <class T>
inline order_key_t<T> key_for_min(T x) {
  return ~key_for_max(-x);
}

/// The float whose key is `key`; the key of a NaN gives a NaN.
inline float from_key(std::int32_t key) {
  return detail::bit_copy<float>(key ^ ((key >> 31) & 0x7fffffff));
}
inline double from_key(std::int64_t key) {
  return detail::bit_copy<double>(key ^ ((key >> 63) & INT64_C(0x7fffffffffffffff)));
}

}  // namespace tilefoundry
