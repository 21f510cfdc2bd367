// Strided views for the programs of the whole-tensor ops: where elements lie, and whether all others were left alone.
#pragma once

#include "harness.h"

namespace views {

using tilefoundry::index_t;
using tilefoundry::View;

/// Extents and strides of a view, and the elements of memory that it spans.
template <int R>
struct Place {
  index_t shape[R], stride[R];
  index_t count, span;

  template <class T>
  View<T, R> on(T* data) const {
    View<T, R> view{data, {}, {}};
    for (int d = 0; d < R; ++d) view.shape[d] = shape[d], view.stride[d] = stride[d];
    return view;
  }
  /// Offset of row-major element `i`, and its coordinates where asked for.
  index_t offset(index_t i, index_t* coordinate = nullptr) const {
    index_t at = 0;
    for (int d = R - 1; d >= 0; --d) {
      if (coordinate) coordinate[d] = i % shape[d];
      at += i % shape[d] * stride[d];
      i /= shape[d];
    }
    return at;
  }
};

/// A place whose modes lie in `order`, outermost first, with `step` between neighbours of the last: above 1 leaves gaps.
template <int R>
Place<R> place(index_t const (&shape)[R], int const (&order)[R], index_t step = 1) {
  Place<R> p{};
  p.count = 1;
  for (int d = 0; d < R; ++d) p.shape[d] = shape[d], p.count *= shape[d];
  for (int i = R - 1; i >= 0; --i) p.stride[order[i]] = step, step *= shape[order[i]];
  p.span = p.count ? step : 0;
  return p;
}
template <int R>
Place<R> dense(index_t const (&shape)[R], index_t step = 1) {
  int order[R];
  for (int d = 0; d < R; ++d) order[d] = d;
  return place<R>(shape, order, step);
}

/// Random values for all that a place spans.
template <class T, int R>
std::vector<harness::stored_t<T>> values(Place<R> const& p, uint64_t seed, double low, double high) {
  return harness::Random(seed).values<harness::stored_t<T>>(p.span, low, high);
}

/// Every element of `out` against `want(row-major number, coordinates)`; what lies between must hold `before`, byte by
/// byte (all bits set where nothing was given), and so must the guard bands.
template <class T, int R, class Want>
void compare(std::string const& what, harness::Buffer<T> const& out, Place<R> const& p, double absolute, double relative,
             Want want, std::vector<harness::stored_t<T>> before = {}) {
  auto got = out.host();
  if (before.empty()) {
    before.resize(got.size());
    std::memset(static_cast<void*>(before.data()), 0xFF, before.size() * sizeof(T));
  }
  std::vector<char> covered(got.size(), 0);
  for (index_t i = 0; i < p.count; ++i) {
    index_t c[R];
    const index_t at = p.offset(i, c);
    const double value = harness::value_of(got[at]), expected = want(i, c);
    covered[at] = 1;
    harness::expect(harness::near(value, expected, absolute, relative),
                    harness::describe(what + " at " + std::to_string(i), value, expected));
  }
  bool untouched = true;
  for (size_t at = 0; at < got.size(); ++at)
    untouched = untouched && (covered[at] || std::memcmp(&got[at], &before[at], sizeof(T)) == 0);
  harness::expect(untouched, what + ": elements between those of the result changed");
  harness::expect(out.guards_intact(), what + ": guard bytes changed");
}

/// Blocks and threads: one warp, several blocks, more threads than most results have elements.
struct Launch {
  int blocks, threads;
};
const Launch kLaunches[] = {{1, 32}, {3, 96}, {41, 256}};

}  // namespace views
