/// \file unary_tags.cuh
/// Functor tags of the unary family: compute-type value to value, on the device. The CPU surface has the same names.
#pragma once

#include <tilefoundry/runtime/cuda/dtype.cuh>

namespace tilefoundry {
namespace ops {
namespace detail {

template <class T>
inline constexpr bool real = stdx::is_same_v<T, float> || stdx::is_same_v<T, double>;

/// Where sums of T are formed: unsigned for wide integers, since signed overflow has no defined value.
template <class T, bool Wide = stdx::is_integral_v<T> && sizeof(T) >= 4>
struct wrapping {
  using type = stdx::make_unsigned_t<T>;
};
template <class T>
struct wrapping<T, false> {
  using type = T;
};
template <class T>
using wrapping_t = typename wrapping<T>::type;

/// e^x and 1/x by one instruction each; relative error up to about 2^-20 for |x| below 20. Results below 2^-126 are 0.
__device__ inline float approximate_exp(float x) {
#if defined(__CUDA_ARCH__)
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x * 1.44269504088896340736f));
  return y;
#else
  return __expf(x);
#endif
}
__device__ inline float approximate_reciprocal(float x) {
  float y;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

}  // namespace detail

// A tag for real values: one expression for float, one for double, over x.
#define TILEFOUNDRY_REAL_TAG(name, in_float, in_double)                                                   \
  struct name##_op {                                                                                      \
    template <class T>                                                                                    \
    __device__ T operator()(T x) const {                                                                  \
      static_assert(detail::real<T>, "ops::" #name "_op: needs a floating-point operand; cast it first"); \
      if constexpr (stdx::is_same_v<T, float>) {                                                          \
        return in_float;                                                                                  \
      } else {                                                                                            \
        return in_double;                                                                                 \
      }                                                                                                   \
    }                                                                                                     \
  };

TILEFOUNDRY_REAL_TAG(rsqrt, ::rsqrtf(x), ::rsqrt(x))
TILEFOUNDRY_REAL_TAG(sqrt, ::sqrtf(x), ::sqrt(x))
TILEFOUNDRY_REAL_TAG(exp, ::expf(x), ::exp(x))
TILEFOUNDRY_REAL_TAG(exp2, ::exp2f(x), ::exp2(x))
TILEFOUNDRY_REAL_TAG(log, ::logf(x), ::log(x))
TILEFOUNDRY_REAL_TAG(log2, ::log2f(x), ::log2(x))
TILEFOUNDRY_REAL_TAG(sin, ::sinf(x), ::sin(x))
TILEFOUNDRY_REAL_TAG(cos, ::cosf(x), ::cos(x))
TILEFOUNDRY_REAL_TAG(erf, ::erff(x), ::erf(x))
TILEFOUNDRY_REAL_TAG(tanh, ::tanhf(x), ::tanh(x))
TILEFOUNDRY_REAL_TAG(sigmoid, 1.0f / (1.0f + ::expf(-x)), 1.0 / (1.0 + ::exp(-x)))
TILEFOUNDRY_REAL_TAG(silu, x / (1.0f + ::expf(-x)), x / (1.0 + ::exp(-x)))
/// x/2 (1 + erf(x / sqrt 2)).
TILEFOUNDRY_REAL_TAG(gelu, 0.5f * x * (1.0f + ::erff(x * 0.70710678118654752440f)),
                     0.5 * x * (1.0 + ::erf(x * 0.70710678118654752440)))
/// The tanh form of gelu.
TILEFOUNDRY_REAL_TAG(gelu_tanh,
                     0.5f * x * (1.0f + ::tanhf(0.79788456080286535588f * (x + 0.044715f * x * x * x))),
                     0.5 * x * (1.0 + ::tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x))))
/// log(1 + e^x), without overflow.
TILEFOUNDRY_REAL_TAG(softplus, (x > 0.0f ? x : 0.0f) + ::log1pf(::expf(x > 0.0f ? -x : x)),
                     (x > 0.0 ? x : 0.0) + ::log1p(::exp(x > 0.0 ? -x : x)))

#undef TILEFOUNDRY_REAL_TAG

/// `approximate<Tag>`: the tag by the chip's fast instructions, about 2^-20 relative error. That is far below the
/// rounding of 16-bit and narrower types, for whose values `ops::unary` takes it by itself; generated code names it
/// where such values have been widened to float before. A tag without a fast form keeps its own.
template <class Op>
struct approximate : Op {};
template <class Op>
inline constexpr bool has_approximation = false;
template <>
inline constexpr bool has_approximation<exp_op> = true;
template <>
inline constexpr bool has_approximation<sigmoid_op> = true;
template <>
inline constexpr bool has_approximation<silu_op> = true;
template <>
inline constexpr bool has_approximation<gelu_tanh_op> = true;

template <>
struct approximate<exp_op> {
  __device__ float operator()(float x) const { return detail::approximate_exp(x); }
};
template <>
struct approximate<sigmoid_op> {
  __device__ float operator()(float x) const {
    return detail::approximate_reciprocal(1.0f + detail::approximate_exp(-x));
  }
};
template <>
struct approximate<silu_op> {
  __device__ float operator()(float x) const { return x * approximate<sigmoid_op>{}(x); }
};
template <>
struct approximate<gelu_tanh_op> {
  // (1 + tanh u) / 2 is the sigmoid of 2u.
  __device__ float operator()(float x) const {
    return x * approximate<sigmoid_op>{}(1.59576912160573071176f * (x + 0.044715f * x * x * x));
  }
};

struct identity_op {
  template <class T>
  __device__ T operator()(T x) const {
    return x;
  }
};
struct neg_op {
  template <class T>
  __device__ T operator()(T x) const {
    static_assert(!stdx::is_same_v<T, bool>, "ops::neg_op: bool has no negative; use logical_not_op");
    if constexpr (detail::real<T>) {
      return -x;
    } else {
      using W = detail::wrapping_t<T>;
      return static_cast<T>(W(0) - static_cast<W>(x));
    }
  }
};
struct abs_op {
  template <class T>
  __device__ T operator()(T x) const {
    if constexpr (stdx::is_same_v<T, float>) {
      return ::fabsf(x);
    } else if constexpr (stdx::is_same_v<T, double>) {
      return ::fabs(x);
    } else if constexpr (stdx::is_signed_v<T>) {
      return x < T(0) ? neg_op{}(x) : x;
    } else {
      return x;
    }
  }
};
struct logical_not_op {
  template <class T>
  __device__ bool operator()(T x) const {
    return x == T(0);
  }
};
struct square_op {
  template <class T>
  __device__ T operator()(T x) const {
    using W = detail::wrapping_t<T>;
    return static_cast<T>(static_cast<W>(x) * static_cast<W>(x));
  }
};

// Rounding leaves integers as they are.
#define TILEFOUNDRY_ROUNDING_TAG(name, in_float, in_double) \
  struct name##_op {                                        \
    template <class T>                                      \
    __device__ T operator()(T x) const {                    \
      if constexpr (stdx::is_same_v<T, float>) {            \
        return in_float;                                    \
      } else if constexpr (stdx::is_same_v<T, double>) {    \
        return in_double;                                   \
      } else {                                              \
        return x;                                           \
      }                                                     \
    }                                                       \
  };
TILEFOUNDRY_ROUNDING_TAG(ceil, ::ceilf(x), ::ceil(x))
TILEFOUNDRY_ROUNDING_TAG(floor, ::floorf(x), ::floor(x))
/// To the nearest integer, ties to even.
TILEFOUNDRY_ROUNDING_TAG(round, ::rintf(x), ::rint(x))
#undef TILEFOUNDRY_ROUNDING_TAG

/// max(x, 0); NaN stays NaN.
struct relu_op {
  template <class T>
  __device__ T operator()(T x) const {
    return x < T(0) ? T(0) : x;
  }
};
/// min(max(x, low), high); NaN stays NaN.
template <class B>
struct clamp_op {
  B low, high;
  template <class T>
  __device__ T operator()(T x) const {
    const T a = x < static_cast<T>(low) ? static_cast<T>(low) : x;
    return a > static_cast<T>(high) ? static_cast<T>(high) : a;
  }
};

}  // namespace ops
}  // namespace tilefoundry
