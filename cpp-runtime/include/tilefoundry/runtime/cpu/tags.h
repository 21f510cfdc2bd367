/// \file tags.h
/// Functor tags of the op families; the CUDA surface has the same names.
///
/// A tag maps compute-type values (`compute_t`) to a value. Comparisons and logical tags give bool.
#pragma once

#include <cmath>
#include <cstdlib>

#include <tilefoundry/runtime/cpu/erf.h>

namespace tilefoundry {
namespace ops {

namespace detail {
template <class T>
inline constexpr bool real = std::is_floating_point_v<T>;

/// Where sums of T are formed: unsigned for wide integers, since signed overflow has no defined value.
template <class T, bool Wide = std::is_integral_v<T> && sizeof(T) >= 4>
struct wrapping {
  using type = std::make_unsigned_t<T>;
};
template <class T>
struct wrapping<T, false> {
  using type = T;
};
template <class T>
using wrapping_t = typename wrapping<T>::type;
}  // namespace detail

// A tag for real values only, from an expression over x of type T.
#define TILEFOUNDRY_REAL_TAG(name, expression)                                                            \
  struct name##_op {                                                                                      \
    template <class T>                                                                                    \
    T operator()(T x) const {                                                                             \
      static_assert(detail::real<T>, "ops::" #name "_op: needs a floating-point operand; cast it first"); \
      return expression;                                                                                  \
    }                                                                                                     \
  };

TILEFOUNDRY_REAL_TAG(rsqrt, T(1) / std::sqrt(x))
TILEFOUNDRY_REAL_TAG(sqrt, std::sqrt(x))
TILEFOUNDRY_REAL_TAG(exp, math::exp(x))
TILEFOUNDRY_REAL_TAG(exp2, std::exp2(x))
TILEFOUNDRY_REAL_TAG(log, std::log(x))
TILEFOUNDRY_REAL_TAG(log2, std::log2(x))
TILEFOUNDRY_REAL_TAG(sin, std::sin(x))
TILEFOUNDRY_REAL_TAG(cos, std::cos(x))
TILEFOUNDRY_REAL_TAG(erf, math::erf(x))
TILEFOUNDRY_REAL_TAG(sigmoid, math::sigmoid(x))
TILEFOUNDRY_REAL_TAG(silu, x* math::sigmoid(x))
TILEFOUNDRY_REAL_TAG(tanh, math::tanh(x))
/// x/2 (1 + erf(x / sqrt 2)).
TILEFOUNDRY_REAL_TAG(gelu, T(0.5) * x * (T(1) + math::erf(x * T(0.70710678118654752440))))
/// The tanh form of gelu.
TILEFOUNDRY_REAL_TAG(gelu_tanh, T(0.5) * x *
                                    (T(1) + math::tanh(T(0.79788456080286535588) * (x + T(0.044715) * x * x * x))))
/// log(1 + e^x), without overflow.
TILEFOUNDRY_REAL_TAG(softplus, (x > T(0) ? x : T(0)) + std::log1p(math::exp(x > T(0) ? -x : x)))

#undef TILEFOUNDRY_REAL_TAG

struct identity_op {
  template <class T>
  T operator()(T x) const {
    return x;
  }
};
struct neg_op {
  template <class T>
  T operator()(T x) const {
    static_assert(!std::is_same_v<T, bool>, "ops::neg_op: bool has no negative; use logical_not_op");
    if constexpr (detail::real<T>) return -x;
    return static_cast<T>(detail::wrapping_t<T>(0) - static_cast<detail::wrapping_t<T>>(x));
  }
};
struct abs_op {
  template <class T>
  T operator()(T x) const {
    if constexpr (detail::real<T>) return std::fabs(x);
    using W = detail::wrapping_t<T>;
    return x < T(0) ? static_cast<T>(W(0) - static_cast<W>(x)) : x;
  }
};
struct logical_not_op {
  template <class T>
  bool operator()(T x) const {
    return x == T(0);
  }
};
struct square_op {
  template <class T>
  T operator()(T x) const {
    using W = detail::wrapping_t<T>;
    return static_cast<T>(static_cast<W>(x) * static_cast<W>(x));
  }
};
struct ceil_op {
  template <class T>
  T operator()(T x) const {
    if constexpr (detail::real<T>) return std::ceil(x);
    return x;
  }
};
struct floor_op {
  template <class T>
  T operator()(T x) const {
    if constexpr (detail::real<T>) return std::floor(x);
    return x;
  }
};
/// To the nearest integer, ties to even.
struct round_op {
  template <class T>
  T operator()(T x) const {
    if constexpr (detail::real<T>) return std::nearbyint(x);
    return x;
  }
};
/// max(x, 0); NaN stays NaN.
struct relu_op {
  template <class T>
  T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};
/// min(max(x, low), high); NaN stays NaN.
template <class B>
struct clamp_op {
  B low, high;
  template <class T>
  T operator()(T x) const {
    const T a = x < static_cast<T>(low) ? static_cast<T>(low) : x;
    return a > static_cast<T>(high) ? static_cast<T>(high) : a;
  }
};

struct add_op {
  template <class T>
  T operator()(T a, T b) const {
    using W = detail::wrapping_t<T>;
    return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
  }
};
struct sub_op {
  template <class T>
  T operator()(T a, T b) const {
    using W = detail::wrapping_t<T>;
    return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
  }
};
struct mul_op {
  template <class T>
  T operator()(T a, T b) const {
    using W = detail::wrapping_t<T>;
    return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
  }
};
/// Quotient; of integers truncated, 0 for a zero divisor (a trap would kill the process).
struct div_op {
  template <class T>
  T operator()(T a, T b) const {
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
  T operator()(T a, T b) const {
    if constexpr (detail::real<T>) {
      const T r = std::fmod(a, b);
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
  T operator()(T a, T b) const {
    if constexpr (detail::real<T>) {
      if (b == T(0)) return a / b;
      // From the exact remainder: floor(a / b) alone is off by one where the quotient rounds up.
      const T q = (a - mod_op{}(a, b)) / b, f = std::floor(q);
      return q == T(0) ? std::copysign(T(0), a / b) : (q - f > T(0.5) ? f + T(1) : f);
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
  T operator()(T a, T b) const {
    return (a < b || a != a) ? a : b;
  }
};
/// The larger; NaN if either is NaN.
struct maximum_op {
  template <class T>
  T operator()(T a, T b) const {
    return (a > b || a != a) ? a : b;
  }
};

#define TILEFOUNDRY_PREDICATE_TAG(name, expression) \
  struct name##_op {                                \
    template <class T>                              \
    bool operator()(T a, T b) const {               \
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
