/// \file matmul_pack_mma.cuh
/// The tiers for few rows of a product of 16-bit operands, one of them computed while it is read, on `mma.sync`: columns
/// of weights are the instruction's rows, so that few rows of the product fill it.
///
/// A lane reads what its own places of the fragments are computed from, straight from memory. Sums do not depend on
/// which element of k stands at which place of k, as long as both operands agree: so a lane's elements of k lie side by
/// side.
#pragma once

#include <tilefoundry/runtime/cuda/ops/mma_atoms.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_packs.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// Two floats as neighbours of the 16-bit type S, the first in the low half.
template <class S>
__device__ uint32_t word_of(float low, float high) {
  uint32_t word = 0;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  if constexpr (stdx::is_same_v<S, bf16>) {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(word) : "f"(high), "f"(low));
  }
#endif
  return word;
}

/// How a lane's elements of k are read: as a pack inside k, as a pack that is before `end` or behind it, one by one.
enum class Reading { inside, whole, single };

/// A function of i that gives elements 2i and 2i + 1 of the V from (row, k) along k as a word of S; zero from `end` on.
/// `Here`: as in `load_pack`.
template <class S, int V, Reading How, bool Here, class Op>
__device__ auto words_of(Op const& op, int row, int k, int end) {
  const int left = How == Reading::inside ? V : end - k;
  if constexpr (How != Reading::single && Op::in_memory && stdx::is_same_v<typename Op::value_type, S>) {
    auto const pack = core::load_pack<Here>(reinterpret_cast<core::Pack<S, V> const*>(op.at(row, left > 0 ? k : 0)));
    return [pack, left](int i) { return left > 0 ? reinterpret_cast<uint32_t const*>(&pack)[i] : 0u; };
  } else if constexpr (How != Reading::single) {
    auto const element = elements_of<V, Here>(op, row, left > 0 ? k : 0);
    return [element, left](int i) { return left > 0 ? word_of<S>(element(2 * i), element(2 * i + 1)) : 0u; };
  } else {
    auto const element = held<V>([&](int i) { return elements_of<1, Here>(op, row, i < left ? k + i : 0); });
    return [element, left](int i) {
      return word_of<S>(2 * i < left ? float(element.of[2 * i](0)) : 0.0f,
                        2 * i + 1 < left ? float(element.of[2 * i + 1](0)) : 0.0f);
    };
  }
}

/// Join the sums of `Split` warps that share columns, eight rows at a time, and hand them over. `Columns`: of a warp.
/// `place(warp_in_block, to)` writes the eight rows by `Columns` sums of the calling warp to `to[row][column]`.
template <int Threads, int Split, int Columns, class Place, class Take>
__device__ void join_rows(float* memory, Place const& place, Take const& take) {
  constexpr int warps = Threads / 32, held_by_warp = 8 * Columns;
  const int thread = program_id<TopologyScope::thread>();
  __syncthreads();
  place(memory + thread / 32 * held_by_warp);
  __syncthreads();
  for (int i = thread; i < warps / Split * held_by_warp; i += Threads) {
    const int group = i / held_by_warp, at = i % held_by_warp;
    float total = 0.0f;
    CUTE_UNROLL
    for (int w = 0; w < Split; ++w) total += memory[(group * Split + w) * held_by_warp + at];
    take(group, at / Columns, at % Columns, total);
  }
}

/// Warps that share 16 columns, so that each multiprocessor has some thirty.
__device__ constexpr int warps_on_columns(int runs, int warps) {
  int n = 1;
  while (2 * n <= warps && 2 * n * runs <= 4224) n *= 2;
  return n;
}

/// Weights that follow k: a warp takes 16 columns at a time, each of four lanes V neighbours of k.
template <class S, int Threads, int Rows, int Columns, int Packs>
struct DeepMmaTier {
  static constexpr int warps = Threads / 32, own = 16, eights = (Rows + 7) / 8;
  static constexpr int split = Columns == 0 ? 2 : warps_on_columns((Columns + own - 1) / own, warps);
  static constexpr int groups = warps / split, bytes = warps * 8 * own * 4;
  static constexpr int V = Packs >= 4 ? Packs : 4, unroll = eights > 2 ? 1 : 2;
  using Atom = atom::mma_sync<S>;

  static constexpr int chunk = 4 * V, step = split * chunk;

  /// Add the pieces of k that begin at k0, k0 + n * step, ...; gives the first k that is left over.
  template <Reading How, int N, class OA, class OB>
  static __device__ int pieces(OA const& oa, OB const& ob, int const (&columns)[2], int k0, float (&sum)[eights][4]) {
    const int lane = static_cast<int>(program_id<TopologyScope::thread>()) % 32, row = lane / 4, own_k = lane % 4 * V;
    auto const load = [&](int at) {
      return held<2 * N>(
          [&](int i) { return words_of<S, V, How, false>(ob, columns[i % 2], at + i / 2 * step + own_k, ob.k); });
    };
    auto const use = [&](auto const& right, int at) {
      CUTE_UNROLL
      for (int p = 0; p < N; ++p)
        CUTE_UNROLL
        for (int q = 0; q < eights; ++q) {
          const int m = q * 8 + row;
          auto const left = words_of<S, V, How, false>(oa, m < Rows ? m : Rows - 1, at + p * step + own_k, ob.k);
          CUTE_UNROLL
          for (int j = 0; j < V / 4; ++j) {
            const uint32_t a[4] = {right.of[2 * p](2 * j), right.of[2 * p + 1](2 * j), right.of[2 * p](2 * j + 1),
                                   right.of[2 * p + 1](2 * j + 1)};
            const uint32_t b[2] = {left(2 * j), left(2 * j + 1)};
            Atom::fma(sum[q], a, b);
          }
        }
    };
    const int reach = How == Reading::inside ? (N - 1) * step + chunk - 1 : 0;
    return stream_along<false>(k0, N * step, reach, ob.k, load, use);
  }

  template <bool Wide, class OA, class OB>
  static __device__ void accumulate(OA const& oa, OB const& ob, int column0, int part, float (&sum)[eights][4]) {
    const int row = static_cast<int>(program_id<TopologyScope::thread>()) % 32 / 4;
    const int columns[2] = {column0 + row < ob.rows ? column0 + row : ob.rows - 1,
                            column0 + row + 8 < ob.rows ? column0 + row + 8 : ob.rows - 1};
    int k = part * chunk;
    if constexpr (Wide) k = pieces<Reading::inside, unroll>(oa, ob, columns, k, sum);
    pieces<Wide ? Reading::whole : Reading::single, 1>(oa, ob, columns, k, sum);
  }

  template <class A, class All, class D, class Epilogue>
  static __device__ void run(A const& a, All const& all, D const& d, void* workspace, Epilogue const& epilogue) {
    constexpr int skip = D::rank - 2;
    const long long columns = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    const long long runs = (columns + own * groups - 1) / (own * groups);
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32, warp = thread / 32;
    for (long long item = program_id<core::level_in<TopologyScope::cta, D>>(); item < runs * batches;
         item += program_dim<core::level_in<TopologyScope::cta, D>>()) {
      const int batch = static_cast<int>(item / runs), first = static_cast<int>(item % runs) * own * groups;
      auto const oa = rows_of<0, 1>(a, batch);
      auto const ob = rows_of<1, 0>(cute::get<0>(all.all), batch);
      using OA = stdx::remove_cvref_t<decltype(oa)>;
      constexpr bool may = OA::k_contiguous && Packs >= 4 && (OA::in_memory || packs_of<OA> >= V);
      constexpr int wide = may ? V : 1;
      float sum[eights][4] = {};
      if (may && allows_packs<wide>(oa) && allows_packs<wide>(ob) && ob.k % V == 0) {
        accumulate<may>(oa, ob, first + warp / split * own, warp % split, sum);
      } else {
        accumulate<false>(oa, ob, first + warp / split * own, warp % split, sum);
      }
      CUTE_UNROLL
      for (int q = 0; q < eights; ++q) {
        auto const place = [&](float* to) {
          CUTE_UNROLL
          for (int i = 0; i < 4; ++i) to[Atom::sum_column(lane, i) * own + Atom::sum_row(lane, i)] = sum[q][i];
        };
        join_rows<Threads, split, own>(static_cast<float*>(workspace), place, [&](int group, int r, int c, float total) {
          const int row = q * 8 + r, column = first + group * own + c;
          if (row < Rows && column < columns) epilogue(batch, row, column, GroupSums<float, 1>{{total}});
        });
      }
    }
  }
};

/// Weights that follow the columns: a block takes a run of columns, its warps share k; each of eight lanes has W
/// neighbouring columns, at four neighbouring elements of k.
template <class S, int Threads, int Rows, int Columns, int Packs>
struct FlatMmaTier {
  static constexpr int warps = Threads / 32, own = columns_per_block(Columns), W = own / 8, eights = (Rows + 7) / 8;
  static constexpr int bytes = warps * 8 * own * 4, most = W > 4 ? 4 : 8;
  static constexpr bool ahead = warps > 8;
  static constexpr int unroll = eights > 1 ? 2 : ahead ? most / 2 : most;
  using Atom = atom::mma_sync<S>;

  /// What a lane reads of weights at one k: W columns, together or one by one.
  template <bool Wide, class OB>
  static __device__ auto columns_at(OB const& ob, int column, int k) {
    if constexpr (Wide) {
      return elements_of<W, ahead>(ob, column, k);
    } else {
      auto const one = held<W>([&](int i) { return elements_of<1>(ob, column + i < ob.rows ? column + i : 0, k); });
      return [one](int i) { return one.of[i](0); };
    }
  }

  static constexpr int step = warps * 16;

  /// Add the pieces of k that begin at k0, k0 + n * step, ...; gives the first k that is left over.
  template <Reading How, int N, class OA, class OB>
  static __device__ int pieces(OA const& oa, OB const& ob, int column, int k0, float (&sum)[eights][W / 2][4]) {
    const int lane = static_cast<int>(program_id<TopologyScope::thread>()) % 32, own_k = lane % 4 * 4;
    auto const load = [&](int at) {
      return held<4 * N>([&](int i) {
        const int k = at + i / 4 * step + own_k + i % 4;
        return columns_at<How != Reading::single>(ob, column, How == Reading::inside || k < ob.k ? k : 0);
      });
    };
    auto const use = [&](auto const& right, int at) {
      CUTE_UNROLL
      for (int p = 0; p < N; ++p) {
        const int k = at + p * step + own_k;
        auto const word = [&](int i, int c) {
          const uint32_t both = word_of<S>(float(right.of[4 * p + i](c)), float(right.of[4 * p + i + 1](c)));
          if (How == Reading::inside || k + i + 1 < ob.k) return both;
          return k + i < ob.k ? both & 0xffffu : 0u;
        };
        CUTE_UNROLL
        for (int q = 0; q < eights; ++q) {
          const int m = q * 8 + lane / 4;
          auto const left = words_of<S, 4, How, false>(oa, m < Rows ? m : Rows - 1, k, ob.k);
          const uint32_t b[2] = {left(0), left(1)};
          CUTE_UNROLL
          for (int c = 0; c < W / 2; ++c) {
            const uint32_t a[4] = {word(0, c), word(0, c + W / 2), word(2, c), word(2, c + W / 2)};
            Atom::fma(sum[q][c], a, b);
          }
        }
      }
    };
    return stream_along<ahead>(k0, N * step, How == Reading::inside ? (N - 1) * step + 15 : 0, ob.k, load, use);
  }

  template <bool Wide, class OA, class OB>
  static __device__ void accumulate(OA const& oa, OB const& ob, int column0, float (&sum)[eights][W / 2][4]) {
    const int thread = program_id<TopologyScope::thread>(), own_column = column0 + thread % 32 / 4 * W;
    const int column = Wide && own_column >= ob.rows ? 0 : own_column;
    int k = thread / 32 * 16;
    if constexpr (Wide) k = pieces<Reading::inside, unroll>(oa, ob, column, k, sum);
    pieces<Wide ? Reading::whole : Reading::single, 1>(oa, ob, column, k, sum);
  }

  template <class A, class All, class D, class Epilogue>
  static __device__ void run(A const& a, All const& all, D const& d, void* workspace, Epilogue const& epilogue) {
    constexpr int skip = D::rank - 2;
    const long long columns = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    const long long runs = (columns + own - 1) / own;
    const int lane = static_cast<int>(program_id<TopologyScope::thread>()) % 32;
    for (long long item = program_id<core::level_in<TopologyScope::cta, D>>(); item < runs * batches;
         item += program_dim<core::level_in<TopologyScope::cta, D>>()) {
      const int batch = static_cast<int>(item / runs), column0 = static_cast<int>(item % runs) * own;
      auto const oa = rows_of<0, 1>(a, batch);
      auto const ob = rows_of<1, 0>(cute::get<0>(all.all), batch);
      using OA = stdx::remove_cvref_t<decltype(oa)>;
      using OB = stdx::remove_cvref_t<decltype(ob)>;
      constexpr bool wide = OB::row_contiguous && packs_of<OB> >= W;
      constexpr bool deep = OA::k_contiguous && (OA::in_memory || packs_of<OA> >= 4);
      float sum[eights][W / 2][4] = {};
      const bool left = deep && allows_packs<deep ? 4 : 1>(oa) && ob.k % 4 == 0;
      const bool right = wide && allows_packs<wide ? W : 1>(ob) && columns % W == 0;
      if (left && right) {
        accumulate<wide && deep>(oa, ob, column0, sum);
      } else {
        accumulate<false>(oa, ob, column0, sum);
      }
      CUTE_UNROLL
      for (int q = 0; q < eights; ++q) {
        auto const place = [&](float* to) {
          CUTE_UNROLL
          for (int c = 0; c < W / 2; ++c)
            CUTE_UNROLL
            for (int i = 0; i < 4; ++i) {
              const int column = lane / 4 * W + c + i / 2 * (W / 2);
              to[Atom::sum_column(lane, i) * own + column] = sum[q][c][i];
            }
        };
        join_rows<Threads, warps, own>(static_cast<float*>(workspace), place, [&](int, int r, int c, float total) {
          const int row = q * 8 + r, column = column0 + c;
          if (row < Rows && column < columns) epilogue(batch, row, column, GroupSums<float, 1>{{total}});
        });
      }
    }
  }
};

/// Whether both operands are of one 16-bit type, and the chip multiplies such in `mma.sync`.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
template <class A, class B, class T = typename element_of<A>::type>
inline constexpr bool are_halves = stdx::is_same_v<T, typename element_of<B>::type> &&
                                   (stdx::is_same_v<T, f16> || stdx::is_same_v<T, bf16>);
#else
template <class A, class B>
inline constexpr bool are_halves = false;
#endif

/// The tier for a packed operand: by element types, the chip, and the direction in which right elements lie.
template <class A, class B, int Threads, int Rows, int Columns>
__device__ constexpr auto select_pack_tier() {
  using OB = stdx::remove_cvref_t<decltype(rows_of<1, 0>(stdx::declval<B const&>(), 0))>;
  using TA = typename element_of<A>::type;
  using TB = typename element_of<B>::type;
  constexpr bool fills = are_halves<A, B> && Rows > 2;  // of fewer rows the conversions to 16 bits cost more
  if constexpr (fills && OB::k_contiguous) {
    return DeepMmaTier<TA, Threads, Rows, Columns, packs_of<OB>>{};
  } else if constexpr (fills) {
    return FlatMmaTier<TA, Threads, Rows, Columns, packs_of<OB>>{};
  } else if constexpr (OB::k_contiguous) {
    return DeepPackTier<TA, TB, Threads, Rows, Columns, packs_of<OB>>{};
  } else {
    return FlatPackTier<TA, TB, Threads, Rows, Columns, packs_of<OB>>{};
  }
}

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
