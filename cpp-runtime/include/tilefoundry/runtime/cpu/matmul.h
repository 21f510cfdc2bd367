/// \file matmul.h
/// `ops::matmul`: batched product through the loader's BLAS table, or blocked loops without one.
#pragma once

#include <climits>
#include <vector>

#include <tilefoundry/runtime/cpu/view.h>
#include <tilefoundry/runtime/cpu/tags.h>

namespace tilefoundry {
namespace ops {
namespace detail {

/// One matrix operand: element (i, j) is data[i * row + j * column].
template <class T>
struct Matrix {
  T* data;
  index_t row, column;
};

inline bool fits_int(index_t x) { return x >= 0 && x <= INT_MAX; }

/// Whether BLAS can read `a` (rows x columns) as it lies; `ld` is its leading dimension then.
template <class T>
bool blas_operand(Matrix<T> const& a, index_t rows, index_t columns, bool& transposed, index_t& ld) {
  if (a.column == 1 && (a.row >= columns || rows == 1)) {
    transposed = false;
    ld = rows == 1 && a.row < columns ? columns : a.row;
  } else if (a.row == 1 && (a.column >= rows || columns == 1)) {
    transposed = true;
    ld = columns == 1 && a.column < rows ? rows : a.column;
  } else {
    return false;
  }
  ld = ld < 1 ? 1 : ld;
  return fits_int(ld);
}

/// c = a b, or c += a b, by the loader's BLAS; false when there is none or an operand's strides do not suit it.
template <class T>
bool blas_gemm(Matrix<const T> a, Matrix<const T> b, Matrix<T> c, index_t m, index_t n, index_t k, bool add = false) {
  if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
    auto* gemm = [] {
      if constexpr (std::is_same_v<T, float>) return tilefoundry::detail::blas_sgemm.load(std::memory_order_relaxed);
      else return tilefoundry::detail::blas_dgemm.load(std::memory_order_relaxed);
    }();
    bool ta = false, tb = false, tc = false;
    index_t lda = 1, ldb = 1, ldc = 1;
    if (gemm == nullptr || !fits_int(m) || !fits_int(n) || !fits_int(k)) return false;
    if (!blas_operand(a, m, k, ta, lda) || !blas_operand(b, k, n, tb, ldb) || !blas_operand(c, m, n, tc, ldc))
      return false;
    if (tc) return false;
    gemm(101, ta ? 112 : 111, tb ? 112 : 111, int(m), int(n), int(k), T(1), a.data, int(lda), b.data, int(ldb),
         T(add ? 1 : 0), c.data, int(ldc));
    return true;
  }
  return false;
}

/// dst (count x k, dense) = the rows of `a` from `first`, widened.
template <class A, class T>
void widen_rows(Matrix<T> const& a, index_t first, index_t count, index_t k, A* dst) {
  for (index_t i = 0; i < count; ++i) {
    T* row = a.data + (first + i) * a.row;
    if (a.column == 1) {
      for (index_t p = 0; p < k; ++p) dst[i * k + p] = convert<A>(row[p]);
    } else {
      for (index_t p = 0; p < k; ++p) dst[i * k + p] = convert<A>(row[p * a.column]);
    }
  }
}

/// Columns of one packed panel of b, and rows of a that one inner loop keeps in registers.
inline constexpr int panel_columns = 16, panel_rows = 4;

/// out (rows x panel_columns) = a (rows x k, dense) times panel (k x panel_columns, dense).
template <class A>
void panel_product(A const* a, A const* panel, index_t k, int rows, A (&out)[panel_rows][panel_columns]) {
  for (int i = 0; i < panel_rows; ++i)
    for (int j = 0; j < panel_columns; ++j) out[i][j] = A(0);
  A const* row[panel_rows];
  for (int i = 0; i < panel_rows; ++i) row[i] = a + (i < rows ? i : 0) * k;
  for (index_t p = 0; p < k; ++p)
    for (int i = 0; i < panel_rows; ++i) {
      const A x = row[i][p];
      for (int j = 0; j < panel_columns; ++j) out[i][j] = add_op{}(out[i][j], mul_op{}(x, panel[p * panel_columns + j]));
    }
}

/// c = a b, or c += a b, in the accumulator type A, panels of b packed and shared out over threads.
template <class A, class TA, class TB, class TC>
void blocked_gemm(Matrix<TA> a, Matrix<TB> b, Matrix<TC> c, index_t m, index_t n, index_t k, bool add = false) {
  std::vector<A> wide_a(static_cast<std::size_t>(m * k));
  parallel_for(m, k, [&](index_t begin, index_t end) {
    widen_rows<A>(a, begin, end - begin, k, wide_a.data() + begin * k);
  });
  const index_t panels = (n + panel_columns - 1) / panel_columns;
  parallel_for(panels, m * k * panel_columns, [&](index_t begin, index_t end) {
    std::vector<A> panel(static_cast<std::size_t>(k * panel_columns));
    for (index_t at = begin; at < end; ++at) {
      const index_t j0 = at * panel_columns;
      const int columns = static_cast<int>(n - j0 < panel_columns ? n - j0 : panel_columns);
      for (index_t p = 0; p < k; ++p)
        for (int j = 0; j < panel_columns; ++j)
          panel[p * panel_columns + j] =
              j < columns ? convert<A>(b.data[p * b.row + (j0 + j) * b.column]) : A(0);
      for (index_t i0 = 0; i0 < m; i0 += panel_rows) {
        A out[panel_rows][panel_columns];
        const int rows = static_cast<int>(m - i0 < panel_rows ? m - i0 : panel_rows);
        panel_product(wide_a.data() + i0 * k, panel.data(), k, rows, out);
        for (int i = 0; i < rows; ++i)
          for (int j = 0; j < columns; ++j) {
            TC& to = c.data[(i0 + i) * c.row + (j0 + j) * c.column];
            to = convert<TC>(add ? add_op{}(convert<A>(to), out[i][j]) : out[i][j]);
          }
      }
    }
  });
}

/// Columns of b that are widened at a time on the way to BLAS.
inline constexpr index_t widened_columns = 512;

/// c = a b for small floats by widening to float for BLAS, one block of columns at a time.
template <class TA, class TB, class TC>
bool widened_gemm(Matrix<TA> a, Matrix<TB> b, Matrix<TC> c, index_t m, index_t n, index_t k) {
  if (tilefoundry::detail::blas_sgemm.load(std::memory_order_relaxed) == nullptr) return false;
  const index_t block = n < widened_columns ? n : widened_columns;
  std::vector<float> wide_a(static_cast<std::size_t>(m * k)), wide_b(static_cast<std::size_t>(block * k)),
      wide_c(static_cast<std::size_t>(m * block));
  parallel_for(m, k, [&](index_t begin, index_t end) {
    widen_rows<float>(a, begin, end - begin, k, wide_a.data() + begin * k);
  });
  for (index_t j0 = 0; j0 < n; j0 += block) {
    const index_t columns = n - j0 < block ? n - j0 : block;
    // Rows of wide_b follow b's contiguous mode, so that widening reads it in order.
    const bool by_column = b.row == 1;
    const Matrix<TB> part{b.data + j0 * b.column, by_column ? b.column : b.row, by_column ? b.row : b.column};
    const index_t lines = by_column ? columns : k, length = by_column ? k : columns;
    parallel_for(lines, length, [&](index_t begin, index_t end) {
      widen_rows<float>(part, begin, end - begin, length, wide_b.data() + begin * length);
    });
    const Matrix<const float> wb{wide_b.data(), by_column ? 1 : length, by_column ? length : 1};
    if (!blas_gemm<float>({wide_a.data(), k, 1}, wb, {wide_c.data(), columns, 1}, m, columns, k)) return false;
    parallel_for(m, columns, [&](index_t begin, index_t end) {
      for (index_t i = begin; i < end; ++i)
        for (index_t j = 0; j < columns; ++j)
          c.data[i * c.row + (j0 + j) * c.column] = convert<TC>(wide_c[i * columns + j]);
    });
  }
  return true;
}

template <class TA, class TB, class TC>
void gemm(Matrix<TA> a, Matrix<TB> b, Matrix<TC> c, index_t m, index_t n, index_t k) {
  using X = std::remove_const_t<TA>;
  using Y = std::remove_const_t<TB>;
  using A = std::common_type_t<accumulate_t<X>, accumulate_t<Y>>;
  if constexpr (std::is_same_v<X, Y> && std::is_same_v<X, TC>) {
    if (blas_gemm<X>({a.data, a.row, a.column}, {b.data, b.row, b.column}, c, m, n, k)) return;
  }
  if constexpr (std::is_same_v<A, float>) {
    if (widened_gemm(a, b, c, m, n, k)) return;
  }
  blocked_gemm<A>(a, b, c, m, n, k);
}

}  // namespace detail

/// dst[..., i, j] = sum over p of lhs[..., i, p] * rhs[..., p, j].
///
/// Leading modes are batches with dst's extents (zero strides repeat). Reals accumulate in float (double for
/// double), integers in 64 bits; one rounding into dst. Any strides. dst overlaps neither operand.
template <class A, class B, class D, int R>
void matmul(View<A, R> const& lhs, View<B, R> const& rhs, View<D, R> const& dst) {
  static_assert(R >= 2, "ops::matmul: operands need two modes; give a vector an extent-1 mode");
  const index_t m = dst.shape[R - 2], n = dst.shape[R - 1], k = lhs.shape[R - 1];
  if (m == 0 || n == 0) return;
  index_t batches = 1;
  for (int d = 0; d < R - 2; ++d) batches *= dst.shape[d];
  auto run = [&](index_t begin, index_t end) {
    for (index_t batch = begin; batch < end; ++batch) {
      index_t at[3] = {0, 0, 0}, rest = batch;
      for (int d = R - 3; d >= 0; --d) {
        const index_t i = rest % dst.shape[d];
        rest /= dst.shape[d];
        at[0] += i * lhs.stride[d], at[1] += i * rhs.stride[d], at[2] += i * dst.stride[d];
      }
      detail::gemm<A, B, D>({lhs.data + at[0], lhs.stride[R - 2], lhs.stride[R - 1]},
                            {rhs.data + at[1], rhs.stride[R - 2], rhs.stride[R - 1]},
                            {dst.data + at[2], dst.stride[R - 2], dst.stride[R - 1]}, m, n, k);
    }
  };
  // Many small products run side by side; a large one takes the threads itself.
  const index_t product = m * n * k;
  if (batches > 1 && product < (index_t{1} << 21)) {
    parallel_for(batches, product, run);
  } else {
    run(0, batches);
  }
}

}  // namespace ops
}  // namespace tilefoundry
