/// \file contract.h
/// `ops::contract`: a batched product in blocks of rows, each handed to an epilogue while it is in cache.
///
/// The products run on the library's own threads, one block each, so the BLAS behind the table is called from
/// several threads at once and must compute on the calling thread.
#pragma once

#include <cstdlib>
#include <new>

#include <tilefoundry/runtime/cpu/matmul.h>

namespace tilefoundry {

/// `n` elements of scratch memory of the calling thread, uninitialised, aligned to a cache line.
template <class T>
class Scratch {
 public:
  explicit Scratch(index_t n) {
    const std::size_t bytes = (static_cast<std::size_t>(n > 0 ? n : 1) * sizeof(T) + 63) / 64 * 64;
    data_ = static_cast<T*>(std::aligned_alloc(64, bytes));
    if (data_ == nullptr) throw std::bad_alloc();
  }
  ~Scratch() { std::free(data_); }
  Scratch(Scratch const&) = delete;
  Scratch& operator=(Scratch const&) = delete;
  operator T*() const { return data_; }

 private:
  T* data_;
};

namespace ops {
namespace detail {

/// Rows of one block: large enough that packing the right operand again for every block costs little.
inline constexpr index_t block_rows = 256;
/// Columns of one block where rows are too few to give every thread some.
inline constexpr index_t block_columns = 64;

inline index_t ceil_divide(index_t a, index_t b) { return (a + b - 1) / b; }

/// How a contraction is cut: all batches times row blocks times column blocks.
struct Cut {
  index_t rows, columns, row_blocks, column_blocks;

  Cut(index_t batches, index_t m, index_t n, index_t k) {
    const index_t threads = threads_for(batches * m * n, 2 * k);
    rows = m < block_rows ? m : block_rows;
    columns = n;
    if (batches * ceil_divide(m, rows) < threads || (batches * ceil_divide(m, rows)) % threads != 0) {
      const index_t share = ceil_divide(threads, batches);
      const index_t even = ceil_divide(m, share);
      if (even >= 32 && m > 32) rows = even < rows ? even : rows;
    }
    row_blocks = ceil_divide(m, rows);
    column_blocks = 1;
    if (batches * row_blocks < threads && n >= 2 * block_columns) {
      const index_t wanted = ceil_divide(threads, batches * row_blocks);
      columns = ceil_divide(ceil_divide(n, wanted), block_columns) * block_columns;
      column_blocks = ceil_divide(n, columns);
    }
  }
};

template <class A, class B, class Acc, int R>
void product_block(View<A, R> const& lhs, View<B, R> const& rhs, index_t const* at, index_t row, index_t rows,
                   index_t column, index_t columns, index_t k, Acc* acc, index_t pitch) {
  A* a = lhs.data + at[0] + row * lhs.stride[R - 2];
  B* b = rhs.data + at[1] + column * rhs.stride[R - 1];
  gemm<A, B, Acc>({a, lhs.stride[R - 2], lhs.stride[R - 1]}, {b, rhs.stride[R - 2], rhs.stride[R - 1]},
                  {acc, pitch, 1}, rows, columns, k);
}

/// Element offsets of batch `batch` in the operands.
template <int N, int R>
void batch_offsets(index_t batch, index_t const* shape, index_t const* const (&strides)[N], index_t (&at)[N]) {
  for (int i = 0; i < N; ++i) at[i] = 0;
  for (int d = R - 3; d >= 0; --d) {
    const index_t i = batch % shape[d];
    batch /= shape[d];
    for (int j = 0; j < N; ++j) at[j] += i * strides[j][d];
  }
}

/// A contraction as a list of products: batches, or one product where all batches share the right operand and
/// their rows follow each other in memory.
template <class A, class B, int R>
struct Products {
  View<A, R> lhs;
  View<B, R> rhs;
  index_t const* shape;
  index_t const* dst_stride;
  index_t batches = 1, m, n, k;
  bool folded;

  Products(View<A, R> const& a, View<B, R> const& b, index_t const* extents, index_t const* strides)
      : lhs(a), rhs(b), shape(extents), dst_stride(strides), m(extents[R - 2]), n(extents[R - 1]), k(a.shape[R - 1]) {
    for (int d = 0; d < R - 2; ++d) batches *= extents[d];
    folded = batches > 1 && one_right_operand() && rows_follow(lhs.stride) && rows_follow(dst_stride);
  }

  index_t count() const { return folded ? 1 : batches; }
  index_t rows() const { return folded ? batches * m : m; }

  /// Offsets of product `i` in lhs, rhs and dst.
  void offsets(index_t i, index_t (&at)[3]) const {
    batch_offsets<3, R>(folded ? 0 : i, shape, {lhs.stride, rhs.stride, dst_stride}, at);
  }

  /// Call `epilogue` on the rows of product `i`, one batch at a time.
  template <class Acc, class Epilogue>
  void finish(Epilogue const& epilogue, Acc* block, index_t pitch, index_t i, index_t row, index_t row_end,
              index_t column, index_t column_end) const {
    if (!folded) {
      epilogue(block, pitch, i, row, row_end, column, column_end);
      return;
    }
    while (row < row_end) {
      const index_t batch = row / m, first = row % m;
      const index_t taken = row_end - row < m - first ? row_end - row : m - first;
      epilogue(block, pitch, batch, first, first + taken, column, column_end);
      block += taken * pitch;
      row += taken;
    }
  }

 private:
  bool one_right_operand() const {
    for (int d = 0; d < R - 2; ++d)
      if (shape[d] != 1 && rhs.stride[d] != 0) return false;
    return true;
  }
  bool rows_follow(index_t const* stride) const {
    index_t step = stride[R - 2] * m;
    for (int d = R - 3; d >= 0; --d) {
      if (shape[d] != 1 && stride[d] != step) return false;
      step *= shape[d];
    }
    return true;
  }
};

}  // namespace detail

/// No epilogue: the products are the result.
struct no_epilogue {
  template <class Acc>
  void operator()(Acc*, index_t, index_t, index_t, index_t, index_t, index_t) const {}
};

/// dst = lhs * rhs by blocks, each followed by `epilogue(block, pitch, batch, row_begin, row_end, column_begin,
/// column_end)` on the thread that computed it; block[0] is the product at (row_begin, column_begin).
///
/// \tparam WholeRows the epilogue needs all columns of its rows: where columns are shared out over threads, it
/// runs when all are there.
template <bool WholeRows, class A, class B, class Acc, int R, class Epilogue>
void contract(View<A, R> const& lhs, View<B, R> const& rhs, View<Acc, R> const& dst, Epilogue const& epilogue) {
  static_assert(R >= 2, "ops::contract: operands need two modes; give a vector an extent-1 mode");
  const detail::Products<A, B, R> products(lhs, rhs, dst.shape, dst.stride);
  const index_t m = products.rows(), n = products.n, k = products.k, pitch = dst.stride[R - 2];
  if (products.count() * m * n == 0) return;
  const detail::Cut cut(products.count(), m, n, k);
  const bool late = WholeRows && cut.column_blocks > 1;
  const index_t blocks = products.count() * cut.row_blocks * cut.column_blocks;
  parallel_for(blocks, cut.rows * cut.columns * (2 * k + 8), [&](index_t begin, index_t end) {
    for (index_t block = begin; block < end; ++block) {
      const index_t column = block % cut.column_blocks * cut.columns, rest = block / cut.column_blocks;
      const index_t row = rest % cut.row_blocks * cut.rows, i = rest / cut.row_blocks;
      const index_t row_end = row + cut.rows < m ? row + cut.rows : m;
      const index_t column_end = column + cut.columns < n ? column + cut.columns : n;
      index_t at[3];
      products.offsets(i, at);
      Acc* acc = dst.data + at[2] + row * pitch + column;
      detail::product_block(lhs, rhs, at, row, row_end - row, column, column_end - column, k, acc, pitch);
      if (!late) products.finish(epilogue, acc, pitch, i, row, row_end, column, column_end);
    }
  });
  if (!late) return;
  parallel_for(products.count() * m, n * 8, [&](index_t begin, index_t end) {
    while (begin < end) {
      const index_t i = begin / m, row = begin % m;
      const index_t row_end = end - begin < m - row ? row + (end - begin) : m;
      index_t at[3];
      products.offsets(i, at);
      products.finish(epilogue, dst.data + at[2] + row * pitch, pitch, i, row, row_end, index_t{0}, n);
      begin += row_end - row;
    }
  });
}

/// The same where the products themselves are not kept: blocks lie in scratch memory.
template <bool WholeRows, class Acc, class A, class B, int R, class Epilogue>
void contract_in_scratch(View<A, R> const& lhs, View<B, R> const& rhs, index_t const (&shape)[R],
                         Epilogue const& epilogue) {
  const View<Acc, R> dense = make_view<R>(static_cast<Acc*>(nullptr), shape);
  const detail::Products<A, B, R> products(lhs, rhs, dense.shape, dense.stride);
  const index_t m = products.rows(), n = products.n, k = products.k;
  if (products.count() * m * n == 0) return;
  const detail::Cut cut(products.count(), m, n, k);
  if (WholeRows && cut.column_blocks > 1) {
    const Scratch<Acc> all(products.count() * m * n);
    contract<WholeRows>(lhs, rhs, make_view<R>(static_cast<Acc*>(all), shape), epilogue);
    return;
  }
  const index_t blocks = products.count() * cut.row_blocks * cut.column_blocks;
  parallel_for(blocks, cut.rows * cut.columns * (2 * k + 8), [&](index_t begin, index_t end) {
    const Scratch<Acc> acc(cut.rows * cut.columns);
    Acc* const data = acc;
    for (index_t block = begin; block < end; ++block) {
      const index_t column = block % cut.column_blocks * cut.columns, rest = block / cut.column_blocks;
      const index_t row = rest % cut.row_blocks * cut.rows, i = rest / cut.row_blocks;
      const index_t row_end = row + cut.rows < m ? row + cut.rows : m;
      const index_t column_end = column + cut.columns < n ? column + cut.columns : n;
      index_t at[3];
      products.offsets(i, at);
      detail::product_block(lhs, rhs, at, row, row_end - row, column, column_end - column, k, data, cut.columns);
      products.finish(epilogue, data, cut.columns, i, row, row_end, column, column_end);
    }
  });
}

}  // namespace ops
}  // namespace tilefoundry
