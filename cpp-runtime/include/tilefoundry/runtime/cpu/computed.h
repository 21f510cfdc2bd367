/// \file computed.h
/// Operands of a product that are computed while they are read, and how such a product is cut.
#pragma once

#include <tilefoundry/runtime/cpu/contract.h>
#include <tilefoundry/runtime/cpu/few_rows.h>

namespace tilefoundry {
namespace ops {

/// A matrix operand that is computed: `fill(to, pitch, batch, begin, end, inner_begin, inner_end)` writes the elements
/// of a rectangle to `to[(outer - begin) * pitch + inner - inner_begin]`.
///
/// \tparam T         what the elements are multiplied as.
/// \tparam Shared    the operand is the same for all batches.
/// \tparam AlongRows the inner mode is the one of the matrix's rows: it is computed column by column.
template <class T, bool Shared, bool AlongRows, class Fill>
struct Computed {
  using value_type = const T;
  static constexpr bool shared = Shared, along_rows = AlongRows;
  Fill fill;
  index_t cost;  ///< scalar operations per element
};

template <class T, bool Shared, bool AlongRows, class Fill>
Computed<T, Shared, AlongRows, Fill> computed(Fill const& fill, index_t cost) {
  return {fill, cost};
}

namespace detail {

template <class Operand>
inline constexpr bool is_computed = false;
template <class T, bool Shared, bool AlongRows, class Fill>
inline constexpr bool is_computed<Computed<T, Shared, AlongRows, Fill>> = true;

/// Whether one computed operand serves all batches; one in memory needs no work again.
template <class Operand>
constexpr bool is_shared() {
  if constexpr (is_computed<Operand>) return Operand::shared;
  else return false;
}
template <class Operand>
constexpr bool is_along_rows() {
  if constexpr (is_computed<Operand>) return Operand::along_rows;
  else return false;
}

/// What `Products` asks of an operand's view; a computed one follows the batches of the result, or repeats.
template <int R, class T>
View<T, R> as_read(View<T, R> const& view, index_t const*, index_t, index_t) {
  return view;
}
template <int R, class T, bool Shared, bool AlongRows, class Fill>
View<const T, R> as_read(Computed<T, Shared, AlongRows, Fill> const&, index_t const* extents, index_t rows,
                         index_t columns) {
  View<const T, R> view{nullptr, {}, {}};
  index_t step = 1;
  for (int d = R - 1; d >= 0; --d) {
    view.shape[d] = d == R - 1 ? columns : d == R - 2 ? rows : extents[d];
    view.stride[d] = Shared && d < R - 2 ? 0 : step;
    step *= view.shape[d];
  }
  return view;
}

inline index_t least(index_t a, index_t b) { return a < b ? a : b; }
inline index_t largest(index_t a, index_t b) { return a > b ? a : b; }

/// Elements of the left operand, or of unfinished rows of the result, that are held at a time; and of one panel of a
/// right operand that is computed along k, and along its columns.
inline constexpr index_t held_elements = index_t{1} << 22, k_panel = index_t{1} << 19, column_panel = index_t{1} << 18;

/// Pieces that a contraction is cut into where its extents allow it, slices of k where its columns are read in whole
/// rows.
inline constexpr index_t wanted_pieces = 32, wanted_slices = 16, least_slice = 256;

/// How a product with computed operands is cut: by extents alone, so that any number of threads gives equal bits.
///
/// A right operand that lies along k is computed for some columns and all of k, or as much of it as a panel holds.
/// One that lies along its columns is read in as long runs as there are: memory does not keep up with short ones.
struct Pieces {
  index_t rows, columns;  ///< of one piece
  index_t depth;          ///< elements along k that one panel of the right operand has
  index_t slices = 1;     ///< pieces of k, whose sums are added up
  bool few = false;       ///< rows are too few for BLAS

  Pieces(index_t products, index_t m, index_t n, index_t k, bool computed_right, bool by_k, bool few_allowed) : depth(k) {
    few = computed_right && few_allowed && m <= (by_k ? few_rows_by_k : few_rows_by_column);
    rows = largest(m, 1);
    if (few) {
      columns = by_k ? block_columns : run_of_columns;
      const index_t runs = largest(products * ceil_divide(n, columns), 1);
      if (!by_k) slices = largest(least(ceil_divide(wanted_slices, runs), ceil_divide(k, least_slice)), 1);
      depth = ceil_divide(k, slices);
    } else {
      cut(products, m, n, k, computed_right, by_k);
    }
    columns = largest(least(columns, n), 1);
  }

 private:
  void cut(index_t products, index_t m, index_t n, index_t k, bool computed_right, bool by_k) {
    index_t row_blocks = ceil_divide(m, computed_right ? 2 * block_rows : block_rows);
    const index_t wanted = computed_right ? wanted_pieces : wanted_pieces / 2;
    const index_t share = ceil_divide(ceil_divide(n * products * row_blocks, wanted), 32) * 32;
    if (!computed_right) {
      columns = largest(share, 8 * block_columns);
    } else if (by_k) {
      columns = least(largest(share, block_columns), 8 * block_columns);
      depth = least(k, k_panel / columns);
    } else {
      columns = least(largest(share, 8 * block_columns), run_of_columns);
      depth = least(k, column_panel / columns);
    }
    const index_t pieces = largest(products * row_blocks * ceil_divide(n, columns), 1);
    // BLAS packs the left operand again for every piece beside, the right one for every piece below.
    const index_t least_rows = computed_right ? block_rows / 4 : block_rows / 2;
    if (pieces < wanted) row_blocks = least(ceil_divide(wanted, pieces) * row_blocks, ceil_divide(m, least_rows));
    rows = largest(ceil_divide(m, largest(row_blocks, 1)), 1);
  }
};

/// c = a b, or c += a b, of operands that are what they are multiplied as.
template <class TA, class TB, class Acc>
void multiply(Matrix<const TA> a, Matrix<const TB> b, Matrix<Acc> c, index_t m, index_t n, index_t k, bool add) {
  if constexpr (std::is_same_v<TA, Acc> && std::is_same_v<TB, Acc>) {
    if (blas_gemm<Acc>(a, b, c, m, n, k, add)) return;
  }
  blocked_gemm<Acc>(a, b, c, m, n, k, add);
}

}  // namespace detail
}  // namespace ops
}  // namespace tilefoundry
