// Whole-tensor ops over strided views: moves, windows, rotary embedding and convolution against float64 on the host.
#include <tilefoundry/runtime.h>

#include "views.h"

using namespace tilefoundry;
using namespace views;
using harness::Buffer;
using harness::quick;
using harness::value_of;

template <class S, class D, int R>
__global__ void copy_kernel(View<S, R> src, View<D, R> dst) {
  ops::copy(src, dst);
}

/// The elements of `from`, seen through `to`: the same coordinates, other strides. A source stride of 0 repeats.
template <class T, int R>
void check_copy(std::string const& name, Place<R> from, Place<R> const& to, int repeated = -1, size_t shift = 0) {
  if (repeated >= 0) from.stride[repeated] = 0;
  auto in = std::is_same<T, bool>::value ? values<T>(from, R, 0, 2) : values<T>(from, R, -100, 100);
  Buffer<T> src(in, shift);
  for (auto [blocks, threads] : kLaunches) {
    Buffer<T> dst(to.span, shift);
    copy_kernel<<<blocks, threads>>>(from.template on<T const>(src.data()), to.on(dst.data()));
    CHECK_CUDA(cudaGetLastError());
    compare<T>("copy " + name, dst, to, 0, 0, [&](index_t i, index_t const*) { return value_of(in[from.offset(i)]); });
  }
}

template <class T>
void copies(char const* name) {
  for (index_t n : {1, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 1025})
    for (size_t shift : {0, 1}) {
      check_copy<T, 1>(name, dense<1>({n}), dense<1>({n}, 1 + n % 2), -1, shift);
      if (n == 17) check_copy<T, 1>(std::string(name) + " repeated", dense<1>({n}), dense<1>({n}), 0, shift);
    }
  const index_t cube[] = {5, 7, 11};
  check_copy<T, 3>(std::string(name) + " transposed", place<3>(cube, {2, 0, 1}), dense<3>(cube));
  check_copy<T, 3>(std::string(name) + " with gaps", dense<3>(cube, 3), place<3>(cube, {1, 2, 0}, 2));
  check_copy<T, 3>(std::string(name) + " broadcast", dense<3>(cube), dense<3>(cube), 1);
  if (!quick()) check_copy<T, 1>(name, dense<1>({200003}), dense<1>({200003}));
}

__global__ void copy_scalar(float const* src, float* dst) { ops::copy(make_view(src), make_view(dst)); }

void scalar_case() {
  Buffer<float> src(std::vector<float>{2.5f}), dst(1);
  copy_scalar<<<2, 64>>>(src.data(), dst.data());
  compare<float>("copy of a scalar", dst, dense<1>({1}), 0, 0, [](index_t, index_t const*) { return 2.5; });
}

template <class T, int R, class Start>
__global__ void window_kernel(View<T const, R> dst, View<T const, R> update, View<T, R> out, Start start) {
  if constexpr (R == 1) {
    ops::insert_window(dst, update, out, start.at[0]);
  } else {
    ops::insert_window(dst, update, out, start.at[0], start.at[1], start.at[2]);
  }
}

template <class I, int R>
struct Starts {
  I at[R];
};

/// Into a fresh result, and in place: there, memory outside the window keeps its bytes.
template <class T, class I, int R>
void check_window(std::string const& name, Place<R> const& whole, Place<R> const& window, Starts<I, R> start) {
  auto base = values<T>(whole, 1, -9, 9), update = values<T>(window, 2, -9, 9);
  auto want = [&](index_t i, index_t const* c) {
    index_t at = 0;
    bool inside = true;
    for (int d = 0; d < R; ++d) {
      const index_t w = c[d] - index_t(start.at[d]);
      inside = inside && w >= 0 && w < window.shape[d];
      at += w * window.stride[d];
    }
    return value_of(inside ? update[at] : base[whole.offset(i)]);
  };
  for (auto [blocks, threads] : kLaunches)
    for (bool in_place : {false, true}) {
      Buffer<T> source(base), part(update), fresh(whole.span);
      T* const out = in_place ? source.data() : fresh.data();
      window_kernel<T, R><<<blocks, threads>>>(whole.template on<T const>(source.data()),
                                               window.template on<T const>(part.data()), whole.on(out), start);
      CHECK_CUDA(cudaGetLastError());
      const std::string what = name + (in_place ? " in place" : "");
      if (in_place) compare<T>(what, source, whole, 0, 0, want, base);
      else compare<T>(what, fresh, whole, 0, 0, want);
    }
}

void windows() {
  for (index_t n : {1, 7, 33, 1025}) {
    check_window<float, int, 1>("window at the start", dense<1>({n}), dense<1>({(n + 1) / 2}), {{0}});
    check_window<float, int64_t, 1>("window at the end", dense<1>({n}), dense<1>({1}), {{n - 1}});
    check_window<bf16, int64_t, 1>("window over all", dense<1>({n}, 2), dense<1>({n}), {{0}});
  }
  check_window<bf16, int, 3>("window of three modes", dense<3>({4, 19, 12}), dense<3>({4, 3, 12}), {{0, 11, 0}});
  check_window<double, int64_t, 3>("window inside", place<3>({5, 9, 7}, {2, 0, 1}), dense<3>({2, 3, 4}, 2), {{3, 6, 3}});
  check_window<int8_t, int, 3>("empty window", dense<3>({3, 4, 5}), dense<3>({3, 0, 5}), {{0, 2, 0}});
}

template <class T, class C, class P>
__global__ void rope_kernel(View<T const, 4> src, View<C const, 2> cosine, View<C const, 2> sine,
                            View<P const, 2> positions, View<T, 4> dst) {
  ops::rope(src, cosine, sine, positions, dst);
}

/// `shared`: one row of positions for the whole batch, by a stride of 0.
template <class T, class C, class P>
void check_rope(char const* name, index_t batch, index_t length, index_t heads, index_t dim, bool shared, index_t step = 1) {
  const index_t rows = 37;
  auto tensor = dense<4>({batch, length, heads, dim}, step);
  auto table = dense<2>({rows, dim});
  auto at = dense<2>({batch, length});
  if (shared) at.stride[0] = 0;
  auto x = values<T>(tensor, dim, -2, 2);
  auto c = values<C>(table, 3, -1, 1), s = values<C>(table, 4, -1, 1);
  auto p = values<P>(at, 5, 0, rows);
  for (auto& row : p) row = row < 0 ? 0 : row >= P(rows) ? P(rows - 1) : row;
  Buffer<T> src(x);
  Buffer<C> cosine(c), sine(s);
  Buffer<P> positions(p);
  const double exact = std::is_same<T, double>::value ? 1e-14 : 5e-7;
  for (auto [blocks, threads] : kLaunches) {
    Buffer<T> dst(tensor.span);
    rope_kernel<T, C, P><<<blocks, threads>>>(tensor.template on<T const>(src.data()), table.template on<C const>(cosine.data()),
                                              table.template on<C const>(sine.data()),
                                              at.template on<P const>(positions.data()), tensor.on(dst.data()));
    CHECK_CUDA(cudaGetLastError());
    compare<T>(std::string("rope ") + name, dst, tensor, exact, 1.01 * harness::unit<T>(), [&](index_t i, index_t const* k) {
      const index_t row = index_t(p[k[0] * at.stride[0] + k[1] * at.stride[1]]), half = dim / 2, j = k[3];
      const double own = value_of(x[tensor.offset(i)]);
      const double other = value_of(x[tensor.offset(j < half ? i + half : i - half)]);
      return own * value_of(c[row * dim + j]) + (j < half ? -other : other) * value_of(s[row * dim + j]);
    });
  }
}

void ropes() {
  check_rope<float, float, int64_t>("one pair", 1, 1, 1, 2, false);
  check_rope<float, float, int32_t>("f32", 2, 5, 3, 10, false, 2);
  check_rope<bf16, bf16, int64_t>("bf16", 3, 7, 5, 64, true);
  check_rope<bf16, float, int32_t>("bf16 by f32 tables", 1, 31, 2, 34, true);
  check_rope<double, double, int64_t>("f64", 2, 3, 1, 6, false);
  if (!quick()) check_rope<f16, f16, int64_t>("f16", 2, 129, 8, 128, false);
}

template <class X, class W, class D>
__global__ void conv_kernel(View<X const, 4> x, View<W const, 4> w, W const* bias, View<D, 4> dst, ops::ConvGeometry g) {
  ops::conv2d(x, w, bias, dst, g);
}

index_t conv_extent(index_t n, index_t kernel, index_t stride, index_t padding, index_t dilation) {
  return (n + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
}

/// x is [batch, channels, height, width]; the weight [out, channels / groups, kernel...].
template <class X, class W, class D>
void check_conv(char const* name, index_t const (&x_shape)[4], index_t out, index_t const (&kernel)[2], bool has_bias,
                ops::ConvGeometry g) {
  auto xp = place<4>(x_shape, {0, 2, 3, 1});  // channels last
  auto wp = dense<4>({out, x_shape[1] / g.groups, kernel[0], kernel[1]});
  auto dp = dense<4>({x_shape[0], out, conv_extent(x_shape[2], kernel[0], g.stride[0], g.padding[0], g.dilation[0]),
                      conv_extent(x_shape[3], kernel[1], g.stride[1], g.padding[1], g.dilation[1])}, 2);
  auto x = values<X>(xp, 1, -1, 1);
  auto w = values<W>(wp, 2, -1, 1), bias = values<W>(dense<1>({out}), 3, -1, 1);
  Buffer<X> dx(x);
  Buffer<W> dw(w), db(bias);
  const double terms = double(wp.shape[1] * kernel[0] * kernel[1] + 1);
  const double exact = (std::is_same<X, double>::value ? 1e-15 : 1e-7) * terms;
  for (auto [blocks, threads] : kLaunches) {
    Buffer<D> dst(dp.span);
    conv_kernel<X, W, D><<<blocks, threads>>>(xp.template on<X const>(dx.data()), wp.template on<W const>(dw.data()),
                                              has_bias ? db.data() : nullptr, dp.on(dst.data()), g);
    CHECK_CUDA(cudaGetLastError());
    compare<D>(std::string("conv2d ") + name, dst, dp, exact, 1.01 * harness::unit<D>(), [&](index_t, index_t const* k) {
      double total = has_bias ? value_of(bias[k[1]]) : 0;
      const index_t group = k[1] / (out / g.groups);
      for (index_t c = 0; c < wp.shape[1]; ++c)
        for (index_t u = 0; u < kernel[0]; ++u)
          for (index_t v = 0; v < kernel[1]; ++v) {
            const index_t row = k[2] * g.stride[0] + u * g.dilation[0] - g.padding[0];
            const index_t column = k[3] * g.stride[1] + v * g.dilation[1] - g.padding[1];
            if (row < 0 || row >= x_shape[2] || column < 0 || column >= x_shape[3]) continue;
            const index_t channel = group * wp.shape[1] + c;
            total += value_of(w[((k[1] * wp.shape[1] + c) * kernel[0] + u) * kernel[1] + v]) *
                     value_of(x[k[0] * xp.stride[0] + channel * xp.stride[1] + row * xp.stride[2] + column * xp.stride[3]]);
          }
      return total;
    });
  }
}

void convolutions() {
  check_conv<float, float, float>("1x1", {1, 1, 1, 1}, 1, {1, 1}, false, {{1, 1}, {0, 0}, {1, 1}, 1});
  check_conv<float, float, float>("3x3", {2, 3, 9, 7}, 5, {3, 3}, true, {{1, 1}, {1, 1}, {1, 1}, 1});
  check_conv<bf16, bf16, bf16>("strided", {1, 4, 13, 11}, 6, {3, 2}, true, {{2, 3}, {1, 0}, {1, 1}, 2});
  check_conv<f16, f16, float>("dilated", {2, 2, 12, 17}, 2, {3, 5}, false, {{1, 2}, {2, 4}, {2, 3}, 1});
  check_conv<double, double, double>("per channel", {1, 7, 6, 5}, 7, {2, 2}, true, {{1, 1}, {0, 1}, {1, 1}, 7});
  if (!quick()) check_conv<bf16, bf16, bf16>("wide", {2, 16, 31, 29}, 32, {3, 3}, true, {{1, 1}, {1, 1}, {1, 1}, 1});
}

int main() {
  copies<float>("f32");
  copies<bf16>("bf16");
  copies<uint8_t>("u8");
  copies<double>("f64");
  copies<bool>("bool");
  scalar_case();
  windows();
  ropes();
  convolutions();
  return harness::finish("views");
}
