/// \file matmul_packs.cuh
/// The tiers for few rows of one product with an operand that is computed while it is read: every right element is read
/// and computed once, in packs along the direction in which it lies in memory.
#pragma once

#include <tilefoundry/runtime/cuda/ops/matmul_operands.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_stream.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// A function that can be assigned, which closures cannot.
template <class F>
struct Kept {
  union {
    F function;
  };
  __device__ explicit Kept(F const& f) : function(f) {}
  __device__ Kept(Kept const& other) : function(other.function) {}
  __device__ Kept& operator=(Kept const& other) {
    new (&function) F(other.function);
    return *this;
  }
  __device__ auto operator()(int i) const { return function(i); }
};

/// `N` functions of one type.
template <class F, int N>
struct Held {
  Kept<F> of[N];
};
template <class Make, int... I>
__device__ auto hold(Make const& make, cute::seq<I...>) {
  using F = decltype(make(0));
  return Held<F, int(sizeof...(I))>{{Kept<F>(make(I))...}};
}

/// What `make(i)` gives for i below N, all that it reads under way together.
template <int N, class Make>
__device__ auto held(Make const& make) {
  return hold(make, cute::make_seq<N>{});
}

/// `use(load(k), k)` for k, k + step, ... while k + reach stays below `end`. `Ahead`: what comes next is read before each
/// use, so that reads are always under way; for blocks that are alone on a multiprocessor. Gives the first k left over.
template <bool Ahead, class Load, class Use>
__device__ int stream_along(int k, int step, int reach, int end, Load const& load, Use const& use) {
  if constexpr (!Ahead) {
    CUTE_NO_UNROLL
    for (; k + reach < end; k += step) use(load(k), k);
    return k;
  } else {
    if (k + reach >= end) return k;
    auto now = load(k);
    CUTE_NO_UNROLL
    for (; k + step + reach < end; k += step) {
      auto const next = load(k + step);
      use(now, k);
      now = next;
    }
    use(now, k);
    return k + step;
  }
}

__device__ constexpr int smaller_of(int a, int b) { return a < b ? a : b; }

/// The largest power of two of at most n, and at least 1.
__device__ constexpr int power_below(int n) {
  int p = 1;
  while (2 * p <= n) p *= 2;
  return p;
}

template <class Sum>
__device__ void add_product(Sum& sum, Sum left, Sum right) {
  if constexpr (detail::real<Sum>) {
    sum += left * right;
  } else {
    sum = add_op{}(sum, mul_op{}(left, right));
  }
}

/// Columns that a warp takes together where weights follow k: what is read of a, and computed, is shared among them.
__device__ constexpr int columns_per_warp(int rows, int columns) {
  return columns == 0 || rows > 4 ? 2 : columns >= 2048 ? 4 : columns >= 1024 ? 2 : 1;
}

/// Columns of a block where weights follow them: as few as still are a sector of memory, so that there are many blocks.
__device__ constexpr int columns_per_block(int columns) { return columns >= 16384 ? 64 : 32; }

/// Weights that follow k: lanes share k in packs of V, `Split` warps a run of columns.
template <class TA, class TB, int Threads, int Rows, int Columns, int Packs>
struct DeepPackTier {
  static constexpr int outputs = columns_per_warp(Rows, Columns), warps = Threads / 32;
  static constexpr int split = Columns == 0 ? 1 : warps_per_column(Columns / outputs, warps);
  static constexpr int unroll = outputs == 4 ? 2 : 4, lanes = 32 * split, groups = warps / split, bytes = 16;
  static constexpr bool ahead = Rows > 4;  // whose sums leave room for few warps
  using Joined = StreamTier<TA, TB, Threads, Rows, outputs, unroll, split>;
  using Sum = typename Joined::Sum;

  template <int V, class OA, class OB>
  static __device__ void accumulate(OA const& oa, OB const& ob, int column0, Sum (&sum)[Rows][outputs]) {
    const int lane = static_cast<int>(program_id<TopologyScope::thread>()) % lanes;
    int columns[outputs];
    CUTE_UNROLL
    for (int c = 0; c < outputs; ++c) columns[c] = column0 + c < ob.rows ? column0 + c : ob.rows - 1;
    auto const pieces = [&](auto count, int k) {
      constexpr int n = decltype(count)::value;
      auto const load = [&](int at) {
        return held<n * outputs>(
            [&](int i) { return elements_of<V, ahead>(ob, columns[i % outputs], at + i / outputs * lanes * V); });
      };
      auto const use = [&](auto const& right, int at) { multiply<V, n>(oa, right, at, sum); };
      constexpr int turn = n * lanes * V, reach = (n - 1) * lanes * V;
      if constexpr (ahead) {
        return stream_along<true>(k, turn, reach, ob.k, load, use);
      } else {
        // The compiler may unroll this as it likes, as often as it is known to run.
        for (; k + reach < ob.k; k += turn) use(load(k), k);
        return k;
      }
    };
    const int k = pieces(cute::Int<unroll>{}, lane * V);
    pieces(cute::Int<1>{}, k);
  }

  template <int V, int Pieces, class OA, class Right>
  static __device__ void multiply(OA const& oa, Right const& right, int k, Sum (&sum)[Rows][outputs]) {
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p) {
      auto const left = held<Rows>([&](int r) { return elements_of<V>(oa, r, k + p * lanes * V); });
      CUTE_UNROLL
      for (int i = 0; i < V; ++i) {
        Sum x[Rows];
        CUTE_UNROLL
        for (int r = 0; r < Rows; ++r) x[r] = static_cast<Sum>(left.of[r](i));
        CUTE_UNROLL
        for (int c = 0; c < outputs; ++c) {
          const Sum y = static_cast<Sum>(right.of[p * outputs + c](i));
          CUTE_UNROLL
          for (int r = 0; r < Rows; ++r) add_product(sum[r][c], x[r], y);
        }
      }
    }
  }

  template <class A, class All, class D, class Epilogue>
  static __device__ void run(A const& a, All const& all, D const& d, void*, Epilogue const& epilogue) {
    constexpr int skip = D::rank - 2;
    const int thread = program_id<TopologyScope::thread>(), group = thread / lanes;
    const long long columns = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    const long long runs = (columns + outputs - 1) / outputs, items = runs * batches;
    const long long step = static_cast<long long>(program_dim<core::level_in<TopologyScope::cta, D>>()) * groups;
    auto const finish = [&](int matrix, int row, int column, Sum total) {
      epilogue(matrix, row, column, GroupSums<Sum, 1>{{total}});
    };
    // All groups of a block go round together, as they meet where several warps share columns.
    for (long long first = static_cast<long long>(program_id<core::level_in<TopologyScope::cta, D>>()) * groups;
         first < items; first += step) {
      const bool any = first + group < items;
      if (split == 1 && !any) return;
      const long long item = any ? first + group : items - 1;
      const int batch = static_cast<int>(item / runs), column0 = static_cast<int>(item % runs) * outputs;
      auto const oa = rows_of<0, 1>(a, batch);
      auto const ob = rows_of<1, 0>(cute::get<0>(all.all), batch);
      using OA = stdx::remove_cvref_t<decltype(oa)>;
      constexpr int both = OA::in_memory ? Packs : smaller_of(packs_of<OA>, Packs);
      constexpr int wide = OA::k_contiguous ? smaller_of(both, power_below(32 / Rows)) : 1;
      Sum sum[Rows][outputs] = {};
      if (wide > 1 && allows_packs<wide>(oa) && allows_packs<wide>(ob) && ob.k % wide == 0) {
        accumulate<wide>(oa, ob, column0, sum);
      } else {
        accumulate<1>(oa, ob, column0, sum);
      }
      const Sum own = Joined::joined(sum);
      if (any && thread % lanes < Joined::sums) Joined::finish(own, batch, column0, static_cast<int>(columns), finish);
    }
  }
};

/// Weights that follow the columns: a block takes a run of columns and all of k, its lanes packs of V columns each at
/// one k and the next rows of k beside them. Sums are joined over lanes, then warps, in a fixed order.
template <class TA, class TB, int Threads, int Rows, int Columns, int Packs>
struct FlatPackTier {
  using Sum = stdx::common_type_t<accumulate_t<TA>, accumulate_t<TB>>;
  static constexpr int warps = Threads / 32, run_of = columns_per_block(Columns);
  static constexpr int wide = smaller_of(Packs, power_below(32 / Rows));
  static constexpr bool ahead = warps > 8;
  static constexpr int bytes = warps * Rows * run_of * int(sizeof(Sum));
  static_assert(bytes <= 48 * 1024, "ops::matmul: the sums of a block exceed static shared memory");

  template <int V, class OA, class OB>
  static __device__ void accumulate(OA const& oa, OB const& ob, int column0, Sum* memory) {
    constexpr int across = run_of / V < 32 ? run_of / V : 32, turns = run_of / V / across, deep = 32 / across;
    constexpr int unroll = ahead || V * Rows > 16 ? 4 : 8, step = warps * deep;
    const int thread = program_id<TopologyScope::thread>(), lane = thread % 32, warp = thread / 32;
    CUTE_UNROLL
    for (int turn = 0; turn < turns; ++turn) {
      const int place = (turn * across + lane % across) * V, column = column0 + place;
      Sum sum[Rows][V] = {};
      if (column < ob.rows) {
        auto const pieces = [&](auto count, int k) {
          constexpr int n = decltype(count)::value;
          auto const load = [&](int at) {
            return held<n>([&](int p) { return elements_of<V, ahead>(ob, column, at + p * step); });
          };
          auto const use = [&](auto const& right, int at) { multiply<V, n>(oa, right, at, step, sum); };
          return stream_along<ahead>(k, n * step, (n - 1) * step, ob.k, load, use);
        };
        const int k = pieces(cute::Int<unroll>{}, warp * deep + lane / across);
        pieces(cute::Int<1>{}, k);
      }
      CUTE_UNROLL
      for (int r = 0; r < Rows; ++r)
        CUTE_UNROLL
        for (int i = 0; i < V; ++i) {
          Sum total = sum[r][i];
          CUTE_UNROLL
          for (int apart = 16; apart >= across; apart /= 2)
            total = add_op{}(total, __shfl_xor_sync(0xffffffffu, total, apart));
          if (lane < across) memory[(warp * Rows + r) * run_of + place + i] = total;
        }
    }
  }

  template <int V, int Pieces, class OA, class Right>
  static __device__ void multiply(OA const& oa, Right const& right, int k, int step, Sum (&sum)[Rows][V]) {
    auto const left = held<Pieces * Rows>([&](int i) { return elements_of<1>(oa, i % Rows, k + i / Rows * step); });
    CUTE_UNROLL
    for (int p = 0; p < Pieces; ++p) {
      Sum x[Rows];
      CUTE_UNROLL
      for (int r = 0; r < Rows; ++r) x[r] = static_cast<Sum>(left.of[p * Rows + r](0));
      CUTE_UNROLL
      for (int i = 0; i < V; ++i) {
        const Sum y = static_cast<Sum>(right.of[p](i));
        CUTE_UNROLL
        for (int r = 0; r < Rows; ++r) add_product(sum[r][i], x[r], y);
      }
    }
  }

  template <class A, class All, class D, class Epilogue>
  static __device__ void run(A const& a, All const& all, D const& d, void* workspace, Epilogue const& epilogue) {
    constexpr int skip = D::rank - 2;
    const long long columns = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    const long long groups = (columns + run_of - 1) / run_of;
    const int thread = program_id<TopologyScope::thread>();
    Sum* const memory = static_cast<Sum*>(workspace);
    for (long long item = program_id<core::level_in<TopologyScope::cta, D>>(); item < groups * batches;
         item += program_dim<core::level_in<TopologyScope::cta, D>>()) {
      const int batch = static_cast<int>(item / groups), column0 = static_cast<int>(item % groups) * run_of;
      auto const oa = rows_of<0, 1>(a, batch);
      auto const ob = rows_of<1, 0>(cute::get<0>(all.all), batch);
      using OB = stdx::remove_cvref_t<decltype(ob)>;
      constexpr int packed = OB::row_contiguous ? wide : 1;
      if (packed > 1 && allows_packs<packed>(ob) && columns % packed == 0) {
        accumulate<packed>(oa, ob, column0, memory);
      } else {
        accumulate<1>(oa, ob, column0, memory);
      }
      __syncthreads();
      for (int i = thread; i < Rows * run_of; i += Threads) {
        const int row = i / run_of, column = column0 + i % run_of;
        GroupSums<Sum, 1> out{{Sum(0)}};
        for (int w = 0; w < warps; ++w) out.value[0] = add_op{}(out.value[0], memory[w * Rows * run_of + i]);
        if (column < columns) epilogue(batch, row, column, out);
      }
      __syncthreads();
    }
  }
};

template <class X>
inline constexpr bool is_packed = false;
template <class T, bool LastFastest, int Width, class Function>
inline constexpr bool is_packed<PackedOperand<T, LastFastest, Width, Function>> = true;

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
