// Row updates by index, argmax and topk: exact, except sums, which are held to float64 on the host.
#include <tilefoundry/runtime.h>

#include <algorithm>

#include "views.h"

using namespace tilefoundry;
using namespace views;
using harness::Buffer;
using harness::quick;
using harness::value_of;

template <bool Add, class T, class I, int R>
__global__ void update_kernel(View<T const, R> dst, View<I const, 1> index, View<T const, R> src, View<T, R> out) {
  if constexpr (Add) {
    ops::index_add(dst, index, src, out);
  } else {
    ops::index_copy(dst, index, src, out);
  }
}

/// Rows `index` of dst; numbers repeat, and some rows have none. Fresh and in place.
template <bool Add, class T, class I, int R>
void check_update(char const* name, index_t const (&shape)[R], index_t count, index_t step) {
  Place<R> whole = dense<R>(shape, step);
  index_t source_shape[R];
  for (int d = 0; d < R; ++d) source_shape[d] = d == 0 ? count : shape[d];
  int order[R];
  for (int d = 0; d < R; ++d) order[d] = R - 1 - d;
  Place<R> part = place<R>(source_shape, order);
  auto base = values<T>(whole, 1, -9, 9), added = values<T>(part, 2, -9, 9);
  const index_t rows = shape[0], columns = rows ? whole.count / rows : 0;
  std::vector<I> index(count);
  harness::Random random(3);
  for (index_t i = 0; i < count; ++i) index[i] = i % 3 == 1 ? I(0) : I(random.next(0, double(rows)));
  auto want = [&](index_t i, index_t const* c) {
    double total = value_of(base[whole.offset(i)]);
    for (index_t k = 0; k < count; ++k) {
      if (index_t(index[k]) != c[0]) continue;
      const double x = value_of(added[part.offset(k * columns + i % columns)]);
      total = Add ? total + x : x;
    }
    return total;
  };
  const bool exact = !Add || !is_real_v<T>;
  const double bound = exact ? 0 : (std::is_same<T, double>::value ? 1e-15 : 1e-7) * 10 * double(count + 1);
  for (auto [blocks, threads] : kLaunches)
    for (bool in_place : {false, true}) {
      Buffer<T> source(base), update(added), fresh(whole.span);
      Buffer<I> numbers(index);
      T* const out = in_place ? source.data() : fresh.data();
      update_kernel<Add><<<blocks, threads>>>(whole.template on<T const>(source.data()),
                                              dense<1>({count}).template on<I const>(numbers.data()),
                                              part.template on<T const>(update.data()), whole.on(out));
      CHECK_CUDA(cudaGetLastError());
      const std::string what = std::string(Add ? "index_add " : "index_copy ") + name + (in_place ? " in place" : "");
      const double relative = exact ? 0 : 1.01 * harness::unit<T>();
      if (in_place) compare<T>(what, source, whole, bound, relative, want, base);
      else compare<T>(what, fresh, whole, bound, relative, want);
    }
}

template <bool Add>
void updates() {
  check_update<Add, float, int64_t, 1>("one element", {1}, 1, 1);
  check_update<Add, float, int32_t, 1>("f32 vector", {31}, 17, 2);
  check_update<Add, float, int64_t, 2>("f32", {7, 33}, 19, 1);
  check_update<Add, bf16, int64_t, 2>("bf16", {13, 127}, 5, 1);
  check_update<Add, int32_t, int32_t, 3>("i32", {5, 3, 11}, 8, 2);
  check_update<Add, double, int64_t, 3>("f64", {3, 1, 1025}, 2, 1);
  check_update<Add, float, int64_t, 2>("no index", {4, 9}, 0, 1);
  if (!quick()) check_update<Add, bf16, int64_t, 2>("bf16 wide", {97, 1031}, 64, 1);
}

template <class T, int R>
__global__ void argmax_kernel(View<T const, R> src, View<i64, R - 1> dst) {
  ops::argmax(src, dst);
}

template <class T, int R>
__global__ void topk_kernel(View<T const, R> src, View<T, R> values, View<i64, R> indices, bool largest) {
  ops::topk(src, values, indices, largest);
}

/// Values with ties; of floats some are NaN or infinite.
template <class T, int R>
std::vector<harness::stored_t<T>> awkward(Place<R> const& p, uint64_t seed) {
  auto out = values<T>(p, seed, std::is_same<T, bool>::value ? 0 : -4, std::is_same<T, bool>::value ? 2 : 4);
  if constexpr (is_real_v<T>) {
    for (auto& x : out) x = convert<T>(std::nearbyint(value_of(x) * 2) / 2);
    for (size_t i = 3; i < out.size(); i += 17) out[i] = convert<T>(std::nan(""));
    for (size_t i = 5; i < out.size(); i += 23) out[i] = convert<T>(i % 2 ? INFINITY : -INFINITY);
  }
  return out;
}

/// Whether element a of a row comes before b: NaN is the greatest, equals go by their number.
bool before(double a, double b, index_t i, index_t j, bool largest) {
  const bool nan_a = std::isnan(a), nan_b = std::isnan(b);
  if ((nan_a && nan_b) || a == b) return i < j;
  const bool above = nan_a || (!nan_b && a > b);
  return above == largest;
}

/// The host's answer for one row: all its positions, best first.
template <class T, int R>
std::vector<index_t> ranked(std::vector<T> const& in, Place<R> const& p, index_t row, bool largest) {
  const index_t n = p.shape[R - 1];
  std::vector<index_t> at(n);
  for (index_t j = 0; j < n; ++j) at[j] = j;
  auto value = [&](index_t j) { return value_of(in[p.offset(row * n + j)]); };
  std::stable_sort(at.begin(), at.end(), [&](index_t i, index_t j) { return before(value(i), value(j), i, j, largest); });
  return at;
}

template <class T>
void check_selection(char const* name, index_t outer, index_t rows, index_t n, index_t k, bool strided) {
  auto p = strided ? place<3>({outer, rows, n}, {2, 0, 1}) : dense<3>({outer, rows, n});
  auto best = dense<3>({outer, rows, k}, strided ? 2 : 1);
  auto first = dense<2>({outer, rows}, strided ? 2 : 1);
  auto in = awkward<T>(p, uint64_t(n));
  Buffer<T> src(in);
  const std::string what = std::string(name) + " " + std::to_string(n);
  for (auto [blocks, threads] : kLaunches) {
    Buffer<i64> one(first.span);
    argmax_kernel<T, 3><<<blocks, threads>>>(p.template on<T const>(src.data()), first.on(one.data()));
    CHECK_CUDA(cudaGetLastError());
    std::vector<std::vector<index_t>> order(outer * rows);
    for (bool largest : {false, true}) {
      for (index_t row = 0; row < outer * rows; ++row) order[row] = ranked(in, p, row, largest);
      Buffer<T> top(best.span);
      Buffer<i64> at(best.span);
      topk_kernel<T, 3><<<blocks, threads>>>(p.template on<T const>(src.data()), best.on(top.data()), best.on(at.data()), largest);
      CHECK_CUDA(cudaGetLastError());
      auto place_of = [&](index_t i) { return order[i / k][i % k]; };
      compare<i64>("topk indices " + what, at, best, 0, 0, [&](index_t i, index_t const*) { return double(place_of(i)); });
      compare<T>("topk values " + what, top, best, 0, 0, [&](index_t i, index_t const*) {
        return value_of(in[p.offset(i / k * n + place_of(i))]);
      });
    }
    compare<i64>("argmax " + what, one, first, 0, 0, [&](index_t i, index_t const*) { return double(order[i][0]); });
  }
}

template <class T>
void selections(char const* name) {
  check_selection<T>(name, 1, 1, 1, 1, false);
  check_selection<T>(name, 1, 3, 7, 7, true);
  check_selection<T>(name, 2, 3, 31, 5, false);
  check_selection<T>(name, 3, 1, 32, 2, true);
  check_selection<T>(name, 1, 5, 33, 33, false);
  check_selection<T>(name, 2, 2, 127, 8, true);
  check_selection<T>(name, 1, 2, 1025, 3, false);
  check_selection<T>(name, 1, 3, 4096, 1, false);
  check_selection<T>(name, 1, 2, 5003, 1, true);
  if (!quick()) check_selection<T>(name, 7, 31, 4099, 8, false);
}

int main() {
  updates<true>();
  updates<false>();
  selections<float>("f32");
  selections<bf16>("bf16");
  selections<double>("f64");
  selections<int8_t>("i8");
  selections<int32_t>("i32");
  selections<int64_t>("i64");
  selections<bool>("bool");
  return harness::finish("indices");
}
