/// \file contract_computed.h
/// `ops::contract_computed`: a batched product with operands that are computed while they are read.
///
/// Neither lies in memory as a whole: the left one is computed for as many rows as `held_elements` allow before these
/// are multiplied, the right one in panels, by the thread that multiplies them.
#pragma once

#include <tilefoundry/runtime/cpu/computed.h>

namespace tilefoundry {
namespace ops {
namespace detail {

/// Products [first, last) and their rows [row, row_end), which are computed together.
struct Portion {
  index_t first, last, row, row_end;
  index_t rows() const { return row_end - row; }
  index_t count() const { return last - first; }
};

/// One contraction; see `ops::contract_computed`.
template <bool WholeRows, class Left, class Right, class Acc, int R, class Epilogue>
class ComputedContraction {
  using A = typename Left::value_type;
  using B = typename Right::value_type;
  using TA = std::remove_const_t<A>;
  using TB = std::remove_const_t<B>;
  static constexpr bool left_computed = is_computed<Left>, right_computed = is_computed<Right>;
  static constexpr bool one_left = is_shared<Left>(), one_right = is_shared<Right>(), by_k = is_along_rows<Right>();
  static constexpr bool plain = std::is_floating_point_v<Acc> && std::is_same_v<TA, Acc> && std::is_same_v<TB, Acc>;

 public:
  ComputedContraction(Left const& lhs, Right const& rhs, index_t k, View<Acc, R> const& dst, Epilogue const& epilogue)
      : lhs_(lhs),
        rhs_(rhs),
        dst_(dst),
        epilogue_(epilogue),
        products_(as_read<R>(lhs, dst.shape, dst.shape[R - 2], k), as_read<R>(rhs, dst.shape, k, dst.shape[R - 1]),
                  dst_.shape, dst_.stride),
        m_(products_.rows()),
        n_(products_.n),
        k_(k),
        cut_(products_.count(), rows_at_a_time(m_, k), n_, k, {right_computed, by_k, !by_k && in_runs(rhs), plain}),
        late_(cut_.sliced || (WholeRows && cut_.columns < n_)) {}

  /// Portion by portion, as many products or rows at a time as memory is given to.
  void run() const {
    const index_t count = products_.count();
    if (count * m_ * n_ == 0) return;
    const index_t kept = late_ && dst_.data == nullptr ? n_ : 0;
    if (one_left) {
      by_rows(0, count, k_ + count * kept);
      return;
    }
    const index_t per_row = (left_computed ? k_ : 0) + kept;
    const index_t together = per_row == 0 ? count : held_elements / (per_row * m_);
    if (together < 1) {
      for (index_t i = 0; i < count; ++i) by_rows(i, i + 1, per_row);
      return;
    }
    for (index_t i = 0; i < count; i += together) portion({i, least(i + together, count), 0, m_});
  }

 private:
  /// Whether a right operand in memory lies along its columns.
  static bool in_runs(Right const& rhs) {
    if constexpr (right_computed) return true;
    else return rhs.stride[R - 1] == 1;
  }

  /// Rows of one product that are computed together, as far as the left operand decides it.
  static index_t rows_at_a_time(index_t m, index_t k) {
    return left_computed ? least(m, largest(held_elements / largest(k, 1), block_columns)) : m;
  }

  void by_rows(index_t first, index_t last, index_t per_row) const {
    const index_t fit = per_row == 0 ? m_ : held_elements / per_row;
    const index_t rows = largest(fit / cut_.rows * cut_.rows, cut_.rows);
    for (index_t row = 0; row < m_; row += rows) portion({first, last, row, least(row + rows, m_)});
  }

  void portion(Portion const& part) const {
    const Scratch<TA> left(left_computed ? (one_left ? 1 : part.count()) * part.rows() * k_ : 0);
    if constexpr (left_computed) compute_left(part, left);
    const bool keeps = late_ && dst_.data == nullptr;
    const index_t copies = cut_.sliced ? cut_.slices - !keeps : keeps ? 1 : 0;
    const Scratch<Acc> kept(copies * part.count() * part.rows() * n_);
    if constexpr (plain && !by_k) {
      if (cut_.sliced) slices(part, left, kept);
    }
    if (!cut_.sliced) pieces(part, left, kept);
    if (late_) finish(part, kept);
  }

  /// The left operand's rows of a portion, in the order in which they are computed.
  void compute_left(Portion const& part, TA* to) const {
    const index_t rows = part.rows(), held = one_left ? 1 : part.count();
    if constexpr (is_along_rows<Left>()) {
      parallel_for(k_, held * rows * lhs_.cost, [this, part, held, rows, to](index_t begin, index_t end) {
        for (index_t i = 0; i < held; ++i)
          by_batch(part.first + i, part.row, part.row_end, [&](index_t batch, index_t first, index_t last, index_t at) {
            lhs_.fill(to + (i * k_ + begin) * rows + at, rows, batch, begin, end, first, last);
          });
      });
    } else {
      parallel_for(held * rows, k_ * lhs_.cost, [this, part, rows, to](index_t begin, index_t end) {
        while (begin < end) {
          const index_t i = begin / rows, row = begin % rows, taken = least(end - begin, rows - row);
          by_batch(part.first + i, part.row + row, part.row + row + taken,
                   [&](index_t batch, index_t first, index_t last, index_t at) {
                     lhs_.fill(to + (begin + at) * k_, k_, batch, first, last, 0, k_);
                   });
          begin += taken;
        }
      });
    }
  }

  /// Call `body(batch, first, last, at)` on the rows [row, row_end) of a product, one batch at a time; `at` counts
  /// from `row`.
  template <class Body>
  void by_batch(index_t product, index_t row, index_t row_end, Body const& body) const {
    if (!products_.folded) return body(product, row, row_end, index_t{0});
    const index_t m = products_.m;
    for (index_t at = row; at < row_end;) {
      const index_t batch = at / m, first = at % m, taken = least(row_end - at, m - first);
      body(batch, first, first + taken, at - row);
      at += taken;
    }
  }

  /// All pieces of a portion; those that share a panel follow each other.
  void pieces(Portion const& part, TA const* left, Acc* kept) const {
    const index_t row_blocks = ceil_divide(part.rows(), cut_.rows), panels = ceil_divide(n_, cut_.columns);
    const index_t cost = cut_.rows * cut_.columns * (2 * k_ + 8);
    parallel_for(part.count() * row_blocks * panels, cost, [=, this_ = this](index_t begin, index_t end) {
      const Scratch<TB> panel(this_->panel_size());
      const Scratch<Acc> own(this_->dst_.data == nullptr && !this_->late_ ? this_->cut_.rows * this_->cut_.columns : 0);
      index_t held = -1;
      for (index_t piece = begin; piece < end; ++piece) {
        const index_t block = piece % row_blocks, rest = piece / row_blocks;
        const index_t i = one_right ? rest % part.count() : rest / panels;
        const index_t j = one_right ? rest / part.count() : rest % panels, key = one_right ? j : rest;
        this_->piece(part, left, kept, part.first + i, part.row + block * this_->cut_.rows, j * this_->cut_.columns,
                     panel, own, key != held);
        held = key;
      }
    });
  }

  index_t panel_size() const {
    if (!right_computed) return 0;
    return cut_.few ? 2 * run_of_k : cut_.depth * cut_.columns;
  }

  /// \param fresh whether `panel` may hold another one.
  void piece(Portion const& part, TA const* left, Acc* kept, index_t i, index_t row, index_t column, TB* panel,
             Acc* own, bool fresh) const {
    const index_t row_end = least(row + cut_.rows, part.row_end), column_end = least(column + cut_.columns, n_);
    const bool in_own = dst_.data == nullptr && !late_;
    Matrix<Acc> c = in_own ? Matrix<Acc>{own, cut_.columns, 1} : result(part, kept, i, row);
    if (!in_own) c.data += column;
    const Matrix<const TA> a = left_matrix(part, left, i, row);
    const index_t rows = row_end - row, columns = column_end - column;
    if constexpr (!right_computed) {
      index_t at[3];
      products_.offsets(i, at);
      const Matrix<B> b{rhs_.data + at[1] + column * rhs_.stride[R - 1], rhs_.stride[R - 2], rhs_.stride[R - 1]};
      multiply<TA, TB, Acc>(a, b, c, rows, columns, k_, false);
    } else {
      multiply_computed(a, c, i, column, rows, columns, panel, fresh);
    }
    if (!late_) products_.finish(epilogue_, c.data, c.row, i, row, row_end, column, column_end);
  }

  /// Where the products of a portion lie that are not finished at once, from row `row` of product `i` on.
  Matrix<Acc> result(Portion const& part, Acc* kept, index_t i, index_t row) const {
    if (dst_.data == nullptr) return {kept + ((i - part.first) * part.rows() + row - part.row) * n_, n_, 1};
    index_t at[3];
    products_.offsets(i, at);
    return {dst_.data + at[2] + row * dst_.stride[R - 2], dst_.stride[R - 2], 1};
  }

  Matrix<const TA> left_matrix(Portion const& part, TA const* left, index_t i, index_t row) const {
    if constexpr (left_computed) {
      const index_t rows = part.rows(), first = (one_left ? 0 : i - part.first) * rows * k_;
      if (is_along_rows<Left>()) return {left + first + row - part.row, 1, rows};
      return {left + first + (row - part.row) * k_, k_, 1};
    } else {
      index_t at[3];
      products_.offsets(i, at);
      return {lhs_.data + at[0] + row * lhs_.stride[R - 2], lhs_.stride[R - 2], lhs_.stride[R - 1]};
    }
  }

  /// The batch that a product's right operand is computed for.
  index_t right_batch(index_t i) const { return products_.folded || one_right ? 0 : i; }

  void multiply_computed(Matrix<const TA> a, Matrix<Acc> c, index_t i, index_t column, index_t rows, index_t columns,
                         TB* panel, bool fresh) const {
    const index_t last = column + columns, batch = right_batch(i);
    if constexpr (plain && by_k) {
      if (cut_.few) {
        const DenseRows dense(a, rows, k_);
        product_by_k(dense.matrix, rhs_, batch, column, last, c.data, c.row, rows, k_, panel);
        return;
      }
    }
    for (index_t p = 0; p < k_ || p == 0; p += largest(cut_.depth, 1)) {
      const index_t depth = least(cut_.depth, k_ - p);
      const Matrix<const TB> b = by_k ? Matrix<const TB>{panel, 1, depth} : Matrix<const TB>{panel, columns, 1};
      if ((fresh || depth < k_) && by_k) rhs_.fill(panel, depth, batch, column, last, p, p + depth);
      if ((fresh || depth < k_) && !by_k) rhs_.fill(panel, columns, batch, p, p + depth, column, last);
      multiply<TA, TB, Acc>({a.data + p * a.column, a.row, a.column}, b, c, rows, columns, depth, p > 0);
    }
  }

  /// Rows of the left operand whose elements along k follow each other: where they lie, or copied.
  struct DenseRows {
    Scratch<TA> copy;
    Matrix<const TA> matrix;
    DenseRows(Matrix<const TA> a, index_t rows, index_t k) : copy(a.column == 1 ? 0 : rows * k), matrix(a) {
      if (a.column == 1) return;
      widen_rows<TA>(a, 0, rows, k, static_cast<TA*>(copy));
      matrix = {static_cast<TA*>(copy), k, 1};
    }
  };

  /// Few rows by a right operand that lies along its columns: slices of k, whose sums are added up in order.
  void slices(Portion const& part, TA const* left, Acc* kept) const {
    const index_t runs = ceil_divide(n_, cut_.columns), cost = 2 * m_ * cut_.columns * cut_.slice;
    parallel_for(part.count() * cut_.slices * runs, cost, [=, this_ = this](index_t begin, index_t end) {
      Pieces const& cut = this_->cut_;
      const index_t held = cut.few ? rows_of_k(cut.columns) : cut.depth;
      const Scratch<TB> memory(right_computed ? held * cut.columns : 0);
      for (index_t item = begin; item < end; ++item) {
        const index_t run = item % runs, slice = item / runs % cut.slices, i = part.first + item / runs / cut.slices;
        const index_t first = run * cut.columns, last = least(first + cut.columns, this_->n_);
        Matrix<Acc> c = this_->slice_sums(part, kept, i, slice);
        c.data += first;
        const Matrix<const TA> a = this_->left_matrix(part, left, i, part.row);
        this_->multiply_slice(a, i, first, last, slice, c, part.rows(), memory);
      }
    });
    if (cut_.slices > 1) add_slices(part, kept);
  }

  void multiply_slice(Matrix<const TA> a, index_t i, index_t first, index_t last, index_t slice, Matrix<Acc> c,
                      index_t rows, TB* memory) const {
    const index_t begin = least(slice * cut_.slice, k_), end = least(begin + cut_.slice, k_), columns = last - first;
    auto rows_at = [&](index_t p, index_t count) { return right_rows(i, p, count, first, last, memory); };
    if (cut_.few) {
      const DenseRows dense(a, rows, k_);
      product_by_column(dense.matrix, rows_at, c, rows, columns, begin, end);
      return;
    }
    for (index_t p = begin; p < end || p == begin; p += largest(cut_.depth, 1)) {
      const index_t count = least(cut_.depth, end - p);
      const Matrix<const TA> from{a.data + p * a.column, a.row, a.column};
      multiply<TA, TB, Acc>(from, rows_at(p, count), c, rows, columns, count, p > begin);
    }
  }

  /// Rows [p, p + count) of the right operand, columns [first, last): where they lie, or computed in `memory`.
  Matrix<const TB> right_rows(index_t i, index_t p, index_t count, index_t first, index_t last, TB* memory) const {
    if constexpr (right_computed) {
      rhs_.fill(memory, last - first, right_batch(i), p, p + count, first, last);
      return {memory, last - first, 1};
    } else {
      index_t at[3];
      products_.offsets(i, at);
      return {rhs_.data + at[1] + p * rhs_.stride[R - 2] + first, rhs_.stride[R - 2], 1};
    }
  }

  /// Sums of one slice of k: those of the first lie where the products do.
  Matrix<Acc> slice_sums(Portion const& part, Acc* kept, index_t i, index_t slice) const {
    if (slice == 0) return result(part, kept, i, part.row);
    const index_t before = dst_.data == nullptr ? slice : slice - 1, size = part.rows() * n_;
    return {kept + before * part.count() * size + (i - part.first) * size, n_, 1};
  }

  void add_slices(Portion const& part, Acc* kept) const {
    const index_t rows = part.rows();
    parallel_for(part.count() * n_, rows * cut_.slices, [=, this_ = this](index_t begin, index_t end) {
      while (begin < end) {
        const index_t i = part.first + begin / this_->n_, column = begin % this_->n_;
        const index_t taken = least(end - begin, this_->n_ - column);
        const Matrix<Acc> c = this_->slice_sums(part, kept, i, 0);
        for (index_t slice = 1; slice < this_->cut_.slices; ++slice) {
          const Matrix<Acc> more = this_->slice_sums(part, kept, i, slice);
          for (index_t row = 0; row < rows; ++row) {
            Acc* const to = c.data + row * c.row + column;
            Acc const* const from = more.data + row * more.row + column;
#pragma omp simd
            for (index_t j = 0; j < taken; ++j) to[j] += from[j];
          }
        }
        begin += taken;
      }
    });
  }

  /// Epilogues of a portion whose products are all there.
  void finish(Portion const& part, Acc* kept) const {
    if (part.rows() == 1 && part.count() == 1 && !WholeRows) {
      parallel_for(n_, 8, [=, this_ = this](index_t begin, index_t end) {
        const Matrix<Acc> c = this_->result(part, kept, part.first, part.row);
        const index_t row = part.row;
        this_->products_.finish(this_->epilogue_, c.data + begin, c.row, part.first, row, row + 1, begin, end);
      });
      return;
    }
    const index_t rows = part.rows();
    parallel_for(part.count() * rows, n_ * 8, [=, this_ = this](index_t begin, index_t end) {
      while (begin < end) {
        const index_t i = part.first + begin / rows, at = begin % rows, taken = least(end - begin, rows - at);
        const Matrix<Acc> c = this_->result(part, kept, i, part.row + at);
        this_->products_.finish(this_->epilogue_, c.data, c.row, i, part.row + at, part.row + at + taken, index_t{0},
                                this_->n_);
        begin += taken;
      }
    });
  }

  Left const& lhs_;
  Right const& rhs_;
  View<Acc, R> dst_;
  Epilogue const& epilogue_;
  Products<A, B, R> products_;
  index_t m_, n_, k_;
  Pieces cut_;
  bool late_;
};

}  // namespace detail

/// dst = lhs * rhs as in `ops::contract`, where at least one of `lhs` and `rhs` is a `Computed`. One in memory that is
/// multiplied by a computed one is what it is multiplied as: a small float has to be a `Computed` as well.
///
/// \param k   the extent that both share.
/// \param dst where products are kept; without memory they are only handed to `epilogue`.
template <bool WholeRows, class Left, class Right, class Acc, int R, class Epilogue>
void contract_computed(Left const& lhs, Right const& rhs, index_t k, View<Acc, R> const& dst,
                       Epilogue const& epilogue) {
  static_assert(detail::is_computed<Left> || detail::is_computed<Right>,
                "ops::contract_computed: no operand is computed; ops::contract serves operands in memory");
  detail::ComputedContraction<WholeRows, Left, Right, Acc, R, Epilogue>(lhs, rhs, k, dst, epilogue).run();
}

}  // namespace ops
}  // namespace tilefoundry
