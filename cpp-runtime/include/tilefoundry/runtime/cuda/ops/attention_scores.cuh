/// \file attention_scores.cuh
/// What every attention has in common: how many keys there are, which of them a query sees, what a score weighs.
#pragma once

#include <tilefoundry/runtime/cuda/fault.cuh>
#include <tilefoundry/runtime/cuda/ops/unary_tags.cuh>

namespace tilefoundry {
namespace ops {

/// How many keys each batch row has: all of them, or as many as device memory says.
struct AllKeys {
  __device__ index_t of(index_t, index_t keys) const { return keys; }
};
template <class I>
struct KeyCounts {
  I* data;
  index_t step;
  /// A count outside [0, keys] stops the kernel.
  __device__ index_t of(index_t batch, index_t keys) const {
    const index_t n = static_cast<index_t>(data[batch * step]);
    if (n < 0 || n > keys) device_fail("attention: kv_len is outside of [0, the number of keys]");
    return n;
  }
};

/// What becomes of a dot product. `softcap` 0: nothing; `window` 0: keys are seen from the first on.
struct Scores {
  double scale, softcap;
  index_t window;
  bool causal;
};

namespace attention_impl {

/// Keys `[from, to)`.
struct KeyRange {
  int from, to;
};

/// Keys that query `at` of `queries` sees, of `length` that there are; the last query stands at the last key.
__device__ inline KeyRange visible_keys(Scores const& scores, index_t queries, index_t at, index_t length) {
  const index_t position = length - queries + at;
  index_t from = 0, to = length;
  if (scores.causal && position + 1 < to) to = position + 1;
  if (scores.window > 0 && position - scores.window + 1 > from) from = position - scores.window + 1;
  return to > from ? KeyRange{int(from), int(to)} : KeyRange{0, 0};
}

/// A highest score as what others are measured from: 0 where nothing was seen.
template <class Sum>
__device__ Sum base_of(Sum top) {
  return top == -stdx::numeric_limits<Sum>::infinity() ? Sum(0) : top;
}

/// A dot product as the power of two that its weight is.
template <class Sum>
struct Powered {
  Sum factor, inner, cap;

  __device__ explicit Powered(Scores const& scores) {
    constexpr double log2_e = 1.4426950408889634;
    cap = static_cast<Sum>(scores.softcap * log2_e);
    factor = static_cast<Sum>(scores.scale * log2_e);
    inner = scores.softcap != 0 ? static_cast<Sum>(scores.scale / scores.softcap) : Sum(0);
  }
  __device__ Sum operator()(Sum product) const {
    return cap == Sum(0) ? product * factor : tanh_op{}(product * inner) * cap;
  }
};

}  // namespace attention_impl
}  // namespace ops
}  // namespace tilefoundry
