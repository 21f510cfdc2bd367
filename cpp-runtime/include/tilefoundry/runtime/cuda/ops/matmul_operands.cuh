/// \file matmul_operands.cuh
/// What products read beside memory: operands that are computed, and several right operands at once.
#pragma once

#include <tilefoundry/runtime/cuda/ops/matmul_tiles.cuh>

namespace tilefoundry {
namespace ops {

/// A matrix, or a batch of them, whose elements are computed: `function(batch, first, second)` gives one of type T at
/// its two indices. `LastFastest`: neighbours along the second index lie side by side in memory, else along the first.
template <class T, bool LastFastest, class Function>
struct ComputedOperand {
  using value_type = T;
  Function function;
  int extents[2];
};

/// `ComputedOperand` of a function that is copied; any thread.
template <class T, bool LastFastest = true, class Function>
__device__ ComputedOperand<T, LastFastest, Function> computed(int first, int second, Function const& function) {
  return {function, {first, second}};
}

/// As `ComputedOperand`, read in packs: `function(cute::Int<V>{}, here, batch, first, second)` reads, as `load_pack` does
/// with the constant `here`, what `V` neighbours along the
/// fastest index are computed from, and gives a function of the position inside the pack, which computes one of them in
/// T's compute type. V: `Width`, a smaller power of two, or 1. Packs of more than one element start at multiples of their
/// size, and only where `wide` says that memory allows them.
template <class T, bool LastFastest, int Width, class Function>
struct PackedOperand {
  using value_type = T;
  Function function;
  int extents[2];
  bool wide;
};

/// `PackedOperand` of a function that is copied, valid in the calling thread; any thread.
template <class T, bool LastFastest, int Width, class Function>
__device__ PackedOperand<T, LastFastest, Width, Function> computed_packs(int first, int second, bool wide,
                                                                         Function const& function) {
  return {function, {first, second}, wide};
}

/// Right operands of equal extents and element type, each a gmem tensor or computed.
template <class... B>
struct RightOperands {
  static constexpr int count = static_cast<int>(sizeof...(B));
  static_assert(count >= 1 && count <= 4, "ops::matmul: one to four right operands share a pass");
  cute::tuple<B...> all;
};

/// `RightOperands` of copies of what is given; any thread.
template <class... B>
__device__ RightOperands<B...> right_operands(B const&... b) {
  return {cute::make_tuple(b...)};
}

/// The sums of one element, one per right operand.
template <class Sum, int N>
struct GroupSums {
  Sum value[N];
};

namespace matmul_impl {

template <class X>
struct element_of {
  using type = stdx::remove_cv_t<typename decltype(core::plain_view(stdx::declval<X const&>()))::value_type>;
};
template <class T, bool LastFastest, class Function>
struct element_of<ComputedOperand<T, LastFastest, Function>> {
  using type = T;
};

template <class T, bool LastFastest, int Width, class Function>
struct element_of<PackedOperand<T, LastFastest, Width, Function>> {
  using type = T;
};

/// A computed operand seen as rows by k, as `Operand` sees memory.
template <class T, bool RowFirst, bool LastFastest, class Function>
struct ComputedRows {
  using value_type = T;
  static constexpr bool in_memory = false;
  static constexpr bool k_contiguous = RowFirst == LastFastest, row_contiguous = !k_contiguous;
  Function const& function;
  int batch, rows, k;

  __device__ T load(int row, int kk) const { return RowFirst ? function(batch, row, kk) : function(batch, kk, row); }
  __device__ bool allows_pieces() const { return false; }
};

/// A packed operand seen as rows by k.
template <class T, bool RowFirst, bool LastFastest, int Width, class Function>
struct PackedRows {
  using value_type = T;
  static constexpr bool in_memory = false;
  static constexpr int width = Width;
  static constexpr bool k_contiguous = RowFirst == LastFastest, row_contiguous = !k_contiguous;
  Function const& function;
  int batch, rows, k;
  bool wide;

  /// A function of the position among the V elements from (row, kk).
  template <int V, bool Here = false>
  __device__ auto elements(int row, int kk) const {
    return function(cute::Int<V>{}, cute::bool_constant<Here>{}, batch, RowFirst ? row : kk, RowFirst ? kk : row);
  }
  __device__ T load(int row, int kk) const { return convert<T>(elements<1>(row, kk)(0)); }
  __device__ bool allows_pieces() const { return wide; }
};

/// Rows and k of matrix `batch` of an operand, in memory or computed.
template <int Row, int K, class View>
struct Rows {
  static __device__ auto of(View const& view, int batch) { return operand_of<Row, K>(view, batch); }
};
template <int Row, int K, class T, bool LastFastest, class Function>
struct Rows<Row, K, ComputedOperand<T, LastFastest, Function>> {
  static __device__ auto of(ComputedOperand<T, LastFastest, Function> const& x, int batch) {
    return ComputedRows<T, Row == 0, LastFastest, Function>{x.function, batch, x.extents[Row], x.extents[K]};
  }
};
template <int Row, int K, class T, bool LastFastest, int Width, class Function>
struct Rows<Row, K, PackedOperand<T, LastFastest, Width, Function>> {
  static __device__ auto of(PackedOperand<T, LastFastest, Width, Function> const& x, int batch) {
    return PackedRows<T, Row == 0, LastFastest, Width, Function>{x.function, batch, x.extents[Row], x.extents[K], x.wide};
  }
};
template <int Row, int K, class View>
__device__ auto rows_of(View const& view, int batch) {
  return Rows<Row, K, View>::of(view, batch);
}

/// Elements of an operand that move together; 1 for computed ones that say nothing.
template <class Op, class = void>
inline constexpr int packs_of = Op::in_memory && (Op::k_contiguous || Op::row_contiguous)
                                    ? 16 / int(sizeof(typename Op::value_type))
                                    : 1;
template <class Op>
inline constexpr int packs_of<Op, stdx::void_t<decltype(Op::width)>> = Op::width;

/// A function of the position among the `V` elements from (row, k) along the contiguous direction, in the compute type;
/// what it needs from memory is read now. `Here`: as in `load_pack`.
template <int V, bool Here = false, class Op>
__device__ auto elements_of(Op const& op, int row, int k) {
  if constexpr (Op::in_memory) {
    using T = typename Op::value_type;
    auto const pack = core::load_pack<Here>(reinterpret_cast<core::Pack<T, V> const*>(op.at(row, k)));
    return [pack](int i) { return widen(pack.value[i]); };
  } else {
    return op.template elements<V, Here>(row, k);
  }
}

/// Whether packs of V elements may be read at multiples of V.
template <int V, class Op>
__device__ bool allows_packs(Op const& op) {
  if constexpr (Op::in_memory) {
    constexpr int bytes = V * int(sizeof(typename Op::value_type));
    const long long step = Op::k_contiguous ? static_cast<long long>(op.row_stride) : static_cast<long long>(op.k_stride);
    return core::is_aligned<(bytes < 16 ? bytes : 16)>(op.data) && (step % V == 0 || (Op::k_contiguous && op.rows == 1));
  } else {
    return op.allows_pieces();
  }
}

/// `f(operand, number)` for every right operand; the number is a type.
template <int I = 0, class All, class F>
__device__ void for_each_right(All const& all, F const& f) {
  if constexpr (I < All::count) {
    f(cute::get<I>(all.all), cute::Int<I>{});
    for_each_right<I + 1>(all, f);
  }
}

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
