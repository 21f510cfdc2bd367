/// \file few_rows.h
/// Products of few rows: each element of the right operand is used so few times that packing it for BLAS would cost
/// more than the product.
#pragma once

#include <tilefoundry/runtime/cpu/matmul.h>

namespace tilefoundry {
namespace ops {
namespace detail {

/// Rows up to which these loops serve: for a right operand that is computed along k, along its columns, and for one
/// that lies along its columns in memory.
inline constexpr index_t few_rows_by_k = 8, few_rows_by_column = 16, few_rows_in_memory = 4;

/// Elements along k that are computed at a time, two columns of them; and columns of as many rows as fit.
inline constexpr index_t run_of_k = 1024, run_of_columns = 4096, held_columns = 16384;

/// Rows of `columns` elements that are computed at a time: a multiple of four.
inline index_t rows_of_k(index_t columns) {
  const index_t rows = held_columns / (columns < 1 ? 1 : columns) / 4 * 4;
  return rows < 4 ? 4 : rows > 16 ? 16 : rows;
}

#if defined(__AVX512F__)
inline constexpr int dot_lanes = 16;
#else
inline constexpr int dot_lanes = 8;
#endif

/// out[i][c] = sum over p < k of a[i * pitch + p] * b[c * k + p], each in `Lanes` running sums.
template <int Rows, int Columns, int Lanes, class T>
void dots(T const* a, index_t pitch, T const* b, index_t k, T (&out)[4][2]) {
  T sums[Rows][Columns][Lanes] = {};
  index_t p = 0;
  for (; p + Lanes <= k; p += Lanes)
    for (int i = 0; i < Rows; ++i)
      for (int c = 0; c < Columns; ++c) {
#pragma omp simd
        for (int l = 0; l < Lanes; ++l) sums[i][c][l] += a[i * pitch + p + l] * b[c * k + p + l];
      }
  for (int i = 0; i < Rows; ++i)
    for (int c = 0; c < Columns; ++c) {
      T total = T(0);
      for (int l = 0; l < Lanes; ++l) total += sums[i][c][l];
      for (index_t q = p; q < k; ++q) total += a[i * pitch + q] * b[c * k + q];
      out[i][c] = total;
    }
}

template <int Columns, class T>
void dots(int rows, T const* a, index_t pitch, T const* b, index_t k, T (&out)[4][2]) {
  constexpr int lanes = dot_lanes * static_cast<int>(sizeof(float)) / static_cast<int>(sizeof(T));
  switch (rows) {
    case 1: return dots<1, Columns, 4 * lanes>(a, pitch, b, k, out);
    case 2: return dots<2, Columns, 2 * lanes>(a, pitch, b, k, out);
    case 3: return dots<3, Columns, lanes>(a, pitch, b, k, out);
    default: return dots<4, Columns, lanes>(a, pitch, b, k, out);
  }
}

/// c (rows x (last - first)) = a times the columns [first, last) of `rhs`, which lies along k.
///
/// \param memory 2 * run_of_k elements.
template <class T, class Right>
void product_by_k(Matrix<const T> a, Right const& rhs, index_t batch, index_t first, index_t last, T* c, index_t pitch,
                  index_t rows, index_t k, T* memory) {
  for (index_t j = first; j < last; j += 2) {
    const index_t columns = last - j < 2 ? last - j : 2;
    for (index_t p = 0; p < k || p == 0; p += run_of_k) {
      const index_t count = k - p < run_of_k ? k - p : run_of_k;
      rhs.fill(memory, count, batch, j, j + columns, p, p + count);
      for (index_t i = 0; i < rows; i += 4) {
        T sums[4][2];
        const int taken = static_cast<int>(rows - i < 4 ? rows - i : 4);
        T const* from = a.data + i * a.row + p;
        if (columns == 2) dots<2>(taken, from, a.row, memory, count, sums);
        else dots<1>(taken, from, a.row, memory, count, sums);
        for (int r = 0; r < taken; ++r)
          for (index_t n = 0; n < columns; ++n) {
            T& out = c[(i + r) * pitch + j - first + n];
            out = p == 0 ? sums[r][n] : out + sums[r][n];
          }
      }
    }
  }
}

/// c (rows x columns) = a times the rows [k_begin, k_end) of a matrix that lies along its columns, whose multiples are
/// added up in c.
///
/// \param rows_at gives the matrix's rows [p, p + count), at most rows_of_k(columns) of them.
template <class T, class Rows>
void product_by_column(Matrix<const T> a, Rows const& rows_at, Matrix<T> c, index_t rows, index_t columns,
                       index_t k_begin, index_t k_end) {
  const index_t step = rows_of_k(columns);
  for (index_t i = 0; i < rows; ++i)
    for (index_t j = 0; j < columns; ++j) c.data[i * c.row + j] = T(0);
  for (index_t p = k_begin; p < k_end; p += step) {
    const index_t count = k_end - p < step ? k_end - p : step;
    const Matrix<const T> w = rows_at(p, count);
    for (index_t i = 0; i < rows; ++i) {
      T* const out = c.data + i * c.row;
      T const* const x = a.data + i * a.row + p;
      index_t q = 0;
      for (; q + 4 <= count; q += 4) {
        const T x0 = x[q], x1 = x[q + 1], x2 = x[q + 2], x3 = x[q + 3];
        T const *w0 = w.data + q * w.row, *w1 = w0 + w.row, *w2 = w1 + w.row, *w3 = w2 + w.row;
#pragma omp simd
        for (index_t j = 0; j < columns; ++j) out[j] = out[j] + x0 * w0[j] + x1 * w1[j] + x2 * w2[j] + x3 * w3[j];
      }
      for (; q < count; ++q) {
        const T x0 = x[q];
        T const* const w0 = w.data + q * w.row;
#pragma omp simd
        for (index_t j = 0; j < columns; ++j) out[j] = out[j] + x0 * w0[j];
      }
    }
  }
}

}  // namespace detail
}  // namespace ops
}  // namespace tilefoundry
