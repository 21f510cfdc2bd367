/// \file conv2d.h
/// `ops::conv2d` over [batch, channels, height, width]: patches of the input as a matrix, then a product.
#pragma once

#include <tilefoundry/runtime/cpu/contract.h>

namespace tilefoundry {
namespace ops {

/// Geometry of a convolution, per spatial axis.
struct ConvGeometry {
  index_t stride[2], padding[2], dilation[2], groups;
};

namespace detail {

/// columns[(c, u, v), (i, j)] = x[c, i * stride + u * dilation - padding, ...], 0 outside.
template <class A, class X>
void unfold(View<X, 4> const& x, index_t b, index_t first, index_t channels, index_t const* kernel, index_t const* out,
            ConvGeometry const& g, A* columns) {
  parallel_for(channels * kernel[0] * kernel[1], out[0] * out[1], [&](index_t begin, index_t end) {
    for (index_t row = begin; row < end; ++row) {
      const index_t v = row % kernel[1], u = row / kernel[1] % kernel[0], c = row / kernel[1] / kernel[0];
      X* plane = x.data + b * x.stride[0] + (first + c) * x.stride[1];
      A* to = columns + row * out[0] * out[1];
      for (index_t i = 0; i < out[0]; ++i) {
        const index_t y = i * g.stride[0] + u * g.dilation[0] - g.padding[0];
        for (index_t j = 0; j < out[1]; ++j) {
          const index_t z = j * g.stride[1] + v * g.dilation[1] - g.padding[1];
          const bool inside = y >= 0 && y < x.shape[2] && z >= 0 && z < x.shape[3];
          to[i * out[1] + j] = inside ? convert<A>(plane[y * x.stride[2] + z * x.stride[3]]) : A(0);
        }
      }
    }
  });
}

}  // namespace detail

/// dst[b, o, i, j] = bias[o] + sum over (c, u, v) of weight[o, c, u, v] * x[b, g + c, ...]; bias may be null.
/// Accumulated in float (double for double), rounded once. The weight is dense.
template <class X, class W, class B, class D>
void conv2d(View<X, 4> const& x, View<W, 4> const& weight, B const* bias, View<D, 4> const& dst, ConvGeometry g) {
  using A = accumulate_t<std::remove_const_t<X>>;
  static_assert(std::is_floating_point_v<A>, "ops::conv2d: needs floating-point operands; cast them first");
  const index_t outputs = weight.shape[0] / g.groups, channels = weight.shape[1];
  const index_t kernel[2] = {weight.shape[2], weight.shape[3]}, out[2] = {dst.shape[2], dst.shape[3]};
  const index_t depth = channels * kernel[0] * kernel[1], area = out[0] * out[1];
  const Scratch<A> columns(depth * area);
  A const* const patches = columns;
  for (index_t b = 0; b < dst.shape[0]; ++b)
    for (index_t group = 0; group < g.groups; ++group) {
      detail::unfold<A>(x, b, group * channels, channels, kernel, out, g, static_cast<A*>(columns));
      const auto lhs = make_view<2>(weight.data + group * outputs * depth, {outputs, depth});
      const auto rhs = make_view<2>(patches, {depth, area});
      contract_in_scratch<false, A>(
          lhs, rhs, {outputs, area},
          [=](A* block, index_t pitch, index_t, index_t row, index_t row_end, index_t column, index_t column_end) {
            for (index_t o = row; o < row_end; ++o) {
              const index_t channel = group * outputs + o;
              const A start = bias == nullptr ? A(0) : convert<A>(bias[channel]);
              D* to = dst.data + b * dst.stride[0] + channel * dst.stride[1];
              for (index_t p = column; p < column_end; ++p)
                to[p / out[1] * dst.stride[2] + p % out[1] * dst.stride[3]] =
                    convert<D>(start + block[(o - row) * pitch + p - column]);
            }
          });
    }
}

}  // namespace ops
}  // namespace tilefoundry
