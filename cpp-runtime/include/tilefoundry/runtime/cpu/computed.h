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

/// Pieces that a contraction is cut into where its extents allow it, and slices of k.
inline constexpr index_t wanted_pieces = 32, wanted_slices = 16;

/// Rows up to which k is cut instead of the columns, the least that a slice has of it, and columns from which on a row
/// is a run.
inline constexpr index_t sliced_rows = 64, least_slice = 256, least_run = 8;

/// What decides how a right operand is read.
struct RightKind {
  bool computed;  ///< else in memory
  bool by_k;      ///< computed along k
  bool in_runs;   ///< computed, or in memory, along its columns
  bool plain;     ///< of the floating type that is accumulated in, as the left one is
};

/// How a product with computed operands is cut: by extents alone, so that any number of threads gives equal bits.
///
/// A right operand that lies along k is read for some columns and all of k, or as much of it as a panel holds. One that
/// lies along its columns is read in as long runs as there are: memory does not keep up with short ones. Its columns
/// stay together where rows are so few that their sums over a slice of k are small beside it.
struct Pieces {
  index_t rows, columns;      ///< of one piece
  index_t slices = 1, slice;  ///< pieces of k, whose sums are added up, and the extent of one
  index_t depth;              ///< elements along k that one panel of the right operand has
  bool few = false;           ///< rows are too few for BLAS
  bool sliced = false;

  Pieces(index_t products, index_t m, index_t n, index_t k, RightKind right) : slice(k), depth(k) {
    sliced = right.plain && right.in_runs && m <= sliced_rows && n >= least_run;
    const index_t few_of_runs = right.computed ? few_rows_by_column : few_rows_in_memory;
    few = right.plain && (right.by_k ? m <= few_rows_by_k : sliced && m <= few_of_runs);
    rows = largest(m, 1);
    if (sliced) {
      columns = run_of_columns;
      const index_t runs = largest(products * ceil_divide(n, columns), 1);
      const index_t room = least(ceil_divide(k, least_slice), ceil_divide(k, 8 * rows));
      slices = largest(least(ceil_divide(wanted_slices, runs), room), 1);
      slice = ceil_divide(k, slices);
      if (right.computed) depth = least(slice, column_panel / columns);
    } else if (few) {
      columns = block_columns;
    } else {
      cut(products, m, n, k, right);
    }
    columns = largest(least(columns, n), 1);
  }

 private:
  void cut(index_t products, index_t m, index_t n, index_t k, RightKind right) {
    index_t row_blocks = ceil_divide(m, right.computed ? 2 * block_rows : block_rows);
    const index_t wanted = right.computed ? wanted_pieces : wanted_pieces / 4;
    const index_t share = ceil_divide(ceil_divide(n * products * row_blocks, wanted), 32) * 32;
    if (!right.computed) {
      columns = largest(share, 8 * block_columns);
    } else if (right.by_k) {
      columns = least(largest(share, block_columns), 8 * block_columns);
      depth = least(k, k_panel / columns);
    } else {
      columns = least(largest(share, 8 * block_columns), run_of_columns);
      depth = least(k, column_panel / columns);
    }
    const index_t pieces = largest(products * row_blocks * ceil_divide(n, columns), 1);
    // BLAS packs the left operand again for every piece beside, the right one for every piece below.
    const index_t least_rows = right.computed ? block_rows / 4 : block_rows / 2;
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
