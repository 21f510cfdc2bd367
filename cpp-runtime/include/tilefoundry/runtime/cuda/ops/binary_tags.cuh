/// \file binary_tags.cuh
/// Functor tags of the binary family, on the device. Comparisons and logical tags give bool.
#pragma once

#include <tilefoundry/runtime/cuda/ops/unary_tags.cuh>

namespace tilefoundry {
namespace ops {

#define TILEFOUNDRY_ARITHMETIC_TAG(name, symbol)                        \
  struct name##_op {                                                    \
    template <class T>                                                  \
    __device__ T operator()(T a, T b) const {                           \
      using W = detail::wrapping_t<T>;                                  \
      return static_cast<T>(static_cast<W>(a) symbol static_cast<W>(b)); \
    }                                                                   \
  };
TILEFOUNDRY_ARITHMETIC_TAG(add, +)
TILEFOUNDRY_ARITHMETIC_TAG(sub, -)
TILEFOUNDRY_ARITHMETIC_TAG(mul, *)
#undef TILEFOUNDRY_ARITHMETIC_TAG

/// Quotient; of integers truncated, 0 for a zero divisor (as on the CPU, where it would trap).
struct div_op {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (detail::real<T>) {
      return a / b;
    } else {
      if (b == T(0)) return T(0);
      if (T(-1) < T(0) && b == static_cast<T>(-1)) return neg_op{}(a);
      return static_cast<T>(a / b);
    }
  }
};
/// Remainder with the divisor's sign; of integers 0 for a zero divisor.
struct mod_op {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (detail::real<T>) {
      T r;
      if constexpr (stdx::is_same_v<T, float>) {
        r = ::fmodf(a, b);
      } else {
        r = ::fmod(a, b);
      }
      return r != T(0) && ((r < T(0)) != (b < T(0))) ? r + b : r;
    } else {
      if (b == T(0) || (T(-1) < T(0) && b == static_cast<T>(-1))) return T(0);
      const T r = static_cast<T>(a % b);
      return static_cast<T>(r != T(0) && ((r < T(0)) != (b < T(0))) ? r + b : r);
    }
  }
};
/// Quotient rounded towards minus infinity; of integers 0 for a zero divisor.
struct floor_div_op {
  template <class T>
  __device__ T operator()(T a, T b) const {
    if constexpr (detail::real<T>) {
      if (b == T(0)) return a / b;
      // From the exact remainder: floor(a / b) alone is off by one where the quotient rounds up.
      const T q = (a - mod_op{}(a, b)) / b, f = floor_op{}(q);
      if (q == T(0)) return a / b < T(0) ? -T(0) : T(0);
      return q - f > T(0.5) ? f + T(1) : f;
    } else {
      const T q = div_op{}(a, b);
      const bool down = b != T(0) && mod_op{}(a, b) != T(0) && ((a < T(0)) != (b < T(0)));
      return static_cast<T>(q - (down ? 1 : 0));
    }
  }
};
/// The smaller; NaN if either is NaN.
struct minimum_op {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return (a < b || a != a) ? a : b;
  }
};
/// The larger; NaN if either is NaN.
struct maximum_op {
  template <class T>
  __device__ T operator()(T a, T b) const {
    return (a > b || a != a) ? a : b;
  }
};

#define TILEFOUNDRY_PREDICATE_TAG(name, expression) \
  struct name##_op {                                \
    template <class T>                              \
    __device__ bool operator()(T a, T b) const {    \
      return expression;                            \
    }                                               \
  };
TILEFOUNDRY_PREDICATE_TAG(cmp_eq, a == b)
TILEFOUNDRY_PREDICATE_TAG(cmp_ne, a != b)
TILEFOUNDRY_PREDICATE_TAG(cmp_lt, a < b)
TILEFOUNDRY_PREDICATE_TAG(cmp_le, a <= b)
TILEFOUNDRY_PREDICATE_TAG(cmp_gt, a > b)
TILEFOUNDRY_PREDICATE_TAG(cmp_ge, a >= b)
TILEFOUNDRY_PREDICATE_TAG(logical_and, (a != T(0)) && (b != T(0)))
TILEFOUNDRY_PREDICATE_TAG(logical_or, (a != T(0)) || (b != T(0)))
#undef TILEFOUNDRY_PREDICATE_TAG

}  // namespace ops
}  // namespace tilefoundry
