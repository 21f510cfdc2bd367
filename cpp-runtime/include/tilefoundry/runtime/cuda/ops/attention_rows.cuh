/// \file attention_rows.cuh
/// The online softmax of a warpgroup's 64 rows, scores and sums in registers as `wgmma` leaves them.
///
/// Method: Milakov and Gimelshein, 2018, in base 2 with the scale folded in. Weights enter the second product as a
/// 16-bit number and what that leaves, so that they are as good as float ones.
#pragma once

#include <tilefoundry/runtime/cuda/ops/attention_task.cuh>
#include <tilefoundry/runtime/cuda/ops/wgmma_registers.cuh>

namespace tilefoundry {
namespace ops {
namespace attention_tiles_impl {

/// Two raised to `x`, to 2 units in the last place; results below the normal numbers are zero.
__device__ inline float power_of_two(float x) {
#if defined(__CUDA_ARCH__)
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
#else
  return exp2_op{}(x);
#endif
}

/// Two floats as a word of 16-bit numbers, the first one below; they become what that leaves.
template <class T>
__device__ uint32_t take_halves(float& a, float& b) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  uint32_t word;
  if constexpr (stdx::is_same_v<T, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
    a -= __uint_as_float(word << 16), b -= __uint_as_float(word & 0xffff0000u);
  } else {
    float low, high;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(b), "f"(a));
    asm("{ .reg .b16 x, y; mov.b32 {x, y}, %2; cvt.f32.f16 %0, x; cvt.f32.f16 %1, y; }" : "=f"(low), "=f"(high) : "r"(word));
    a -= low, b -= high;
  }
  return word;
#else
  core::Pack<T, 2> pack{{convert<T>(a), convert<T>(b)}};
  a -= static_cast<float>(widen(pack.value[0])), b -= static_cast<float>(widen(pack.value[1]));
  return *reinterpret_cast<uint32_t const*>(&pack);
#endif
}

/// What a thread holds of its two rows, `lane / 4` of its warp and eight more: what they see, what their weights are
/// measured from (in powers of two), and the thread's part of their sum.
struct OnlineRows {
  KeyRange seen[2];
  KeyRange common;  ///< keys that all rows of the warp see
  float base[2], total[2];
};

/// The first row's weights and the second's, of `Keys` keys, as the left fragments of products over 16 keys each.
template <class T, int Keys>
struct WeightFragments {
  uint32_t most[Keys / 16][4], rest[Keys / 16][4];

  /// Of `weight`, whose values are used up.
  __device__ void take(float (&weight)[Keys / 8][4]) {
    CUTE_UNROLL
    for (int k = 0; k < Keys / 16; ++k)
      CUTE_UNROLL
      for (int i = 0; i < 4; ++i) {
        float(&two)[4] = weight[2 * k + i / 2];
        most[k][i] = take_halves<T>(two[i % 2 * 2], two[i % 2 * 2 + 1]);
        rest[k][i] = take_halves<T>(two[i % 2 * 2], two[i % 2 * 2 + 1]);
      }
  }
};

/// How scores become powers of two: by a factor that is applied with the subtraction, where that keeps their order.
struct Exponents {
  Powered<float> powered;
  bool at_once;
  float factor;

  __device__ explicit Exponents(Scores const& scores)
      : powered(scores), at_once(powered.cap == 0.0f && powered.factor > 0.0f), factor(at_once ? powered.factor : 1.0f) {}
};

/// The steps of the softmax for scores [64, Keys]; all threads of a warp call.
template <int Keys>
struct OnlineSoftmax {
  using Scored = float[Keys / 8][4];

  template <class Task>
  static __device__ void begin(Task const& task, RowTile const& tile, int first, int lane, OnlineRows& own) {
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int n = first + lane / 4 + r * 8;
      own.seen[r] = n < task.rows() ? seen_by(task, n % task.queries, tile.length) : KeyRange{0, 0};
      if (own.seen[r].to > tile.keys.to) own.seen[r].to = tile.keys.to;
      own.base[r] = -stdx::numeric_limits<float>::infinity(), own.total[r] = 0.0f;
    }
    int from = own.seen[0].from > own.seen[1].from ? own.seen[0].from : own.seen[1].from;
    int to = own.seen[0].to < own.seen[1].to ? own.seen[0].to : own.seen[1].to;
    CUTE_UNROLL
    for (int apart = 4; apart < 32; apart *= 2) {
      const int other_from = __shfl_xor_sync(0xffffffffu, from, apart), other_to = __shfl_xor_sync(0xffffffffu, to, apart);
      from = other_from > from ? other_from : from, to = other_to < to ? other_to : to;
    }
    own.common = {from, to};
  }

  /// Scores of the keys from `start` on to weights; `shrink`: what earlier sums are worth now.
  static __device__ void weigh(int start, int lane, Exponents const& exponents, Scored& score, OnlineRows& own,
                               float (&shrink)[2]) {
    if (!exponents.at_once) {
      CUTE_UNROLL
      for (int j = 0; j < Keys / 8; ++j)
        CUTE_UNROLL
        for (int s = 0; s < 4; ++s) score[j][s] = exponents.powered(score[j][s]);
    }
    if (start < own.common.from || start + Keys > own.common.to) hide(start, lane, score, own);
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const float top = highest(score, r) * exponents.factor, now = top > own.base[r] ? top : own.base[r];
      const float base = base_of(now);
      shrink[r] = power_of_two(own.base[r] - base);
      own.base[r] = now;
      float sum[2] = {own.total[r] * shrink[r], 0.0f};
      CUTE_UNROLL
      for (int j = 0; j < Keys / 8; ++j)
        CUTE_UNROLL
        for (int s = 0; s < 2; ++s) {
          float& own_score = score[j][2 * r + s];
          own_score = power_of_two(::fmaf(own_score, exponents.factor, -base));
          sum[s] += own_score;
        }
      own.total[r] = sum[0] + sum[1];
    }
  }

  /// Keys that a row does not see weigh nothing. Those in front of all that it sees are rare: masks without a window
  /// have none.
  static __device__ void hide(int start, int lane, Scored& score, OnlineRows const& own) {
    const int first = start + lane % 4 * 2;
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int end = own.seen[r].to - first;
      CUTE_UNROLL
      for (int i = 0; i < Keys / 4; ++i)
        if (column(i) >= end) score[i / 2][2 * r + i % 2] = -stdx::numeric_limits<float>::infinity();
    }
    if (!__any_sync(0xffffffffu, first < own.seen[0].from || first < own.seen[1].from)) return;
    CUTE_UNROLL
    for (int r = 0; r < 2; ++r) {
      const int begin = own.seen[r].from - first;
      CUTE_UNROLL
      for (int i = 0; i < Keys / 4; ++i)
        if (column(i) < begin) score[i / 2][2 * r + i % 2] = -stdx::numeric_limits<float>::infinity();
    }
  }

  /// Key of a thread's score `i` of a row, counted from its first.
  static __device__ constexpr int column(int i) { return i / 2 * 8 + i % 2; }

  /// The highest score of row `r`, equal in the four lanes that hold it.
  static __device__ float highest(Scored const& score, int r) {
    float top[2] = {score[0][2 * r], score[0][2 * r + 1]};
    CUTE_UNROLL
    for (int j = 1; j < Keys / 8; ++j)
      CUTE_UNROLL
      for (int s = 0; s < 2; ++s) top[s] = ::fmaxf(top[s], score[j][2 * r + s]);
    top[0] = ::fmaxf(top[0], top[1]);
    CUTE_UNROLL
    for (int apart = 1; apart < 4; apart *= 2) top[0] = ::fmaxf(top[0], __shfl_xor_sync(0xffffffffu, top[0], apart));
    return top[0];
  }

  /// What the sums of row `r` are divided by, as a factor; 0 where the row saw no key.
  static __device__ float share(OnlineRows const& own, int r) {
    float total = own.total[r];
    CUTE_UNROLL
    for (int apart = 1; apart < 4; apart *= 2) total += __shfl_xor_sync(0xffffffffu, total, apart);
    return total == 0.0f ? 0.0f : 1.0f / total;
  }
};

}  // namespace attention_tiles_impl
}  // namespace ops
}  // namespace tilefoundry
