/// \file conv2d.cuh
/// `ops::conv2d` over [batch, channels, height, width]: one thread forms one result at a time.
#pragma once

#include <tilefoundry/runtime/cuda/view.cuh>

namespace tilefoundry {
namespace ops {

/// Geometry of a convolution, per spatial axis.
struct ConvGeometry {
  index_t stride[2], padding[2], dilation[2], groups;
};

/// dst[b, o, i, j] = bias[o] + sum over (c, u, v) of weight[o, c, u, v] * x[b, g + c, ...]; bias may be null. All
/// threads of all blocks share the results, which are visible to other threads after a barrier over them. Accumulated in
/// float (double for double), rounded once. No workspace.
template <class X, class W, class B, class D>
__device__ void conv2d(View<X, 4> const& x, View<W, 4> const& weight, B const* bias, View<D, 4> const& dst,
                       ConvGeometry g) {
  using A = accumulate_t<stdx::remove_const_t<X>>;
  using T = stdx::remove_const_t<X>;
  using U = stdx::remove_const_t<W>;
  const index_t per_group = weight.shape[0] / g.groups, channels = weight.shape[1];
  ::tilefoundry::detail::share(dst.size(), [&](index_t item) {
    const index_t j = item % dst.shape[3], i = item / dst.shape[3] % dst.shape[2];
    const index_t o = item / dst.shape[3] / dst.shape[2] % dst.shape[1];
    const index_t b = item / dst.shape[3] / dst.shape[2] / dst.shape[1];
    A total = bias == nullptr ? A(0) : convert<A>(stdx::remove_const_t<B>(bias[o]));
    for (index_t c = 0; c < channels; ++c) {
      X* const plane = x.data + b * x.stride[0] + (o / per_group * channels + c) * x.stride[1];
      for (index_t u = 0; u < weight.shape[2]; ++u) {
        const index_t y = i * g.stride[0] + u * g.dilation[0] - g.padding[0];
        if (y < 0 || y >= x.shape[2]) continue;
        for (index_t v = 0; v < weight.shape[3]; ++v) {
          const index_t z = j * g.stride[1] + v * g.dilation[1] - g.padding[1];
          if (z < 0 || z >= x.shape[3]) continue;
          const index_t w = o * weight.stride[0] + c * weight.stride[1] + u * weight.stride[2] + v * weight.stride[3];
          total += convert<A>(U(weight.data[w])) * convert<A>(T(plane[y * x.stride[2] + z * x.stride[3]]));
        }
      }
    }
    dst.data[dst.offset(item)] = convert<D>(total);
  });
}

}  // namespace ops
}  // namespace tilefoundry
