/// \file rope.h
/// `ops::rope`: rotary position embedding of one tensor [batch, length, heads, dim].
#pragma once

#include <tilefoundry/runtime/cpu/dtype.h>
#include <tilefoundry/runtime/cpu/view.h>
#include <tilefoundry/runtime/host/failure.h>

namespace tilefoundry {
namespace ops {

/// dst = src * cos[pos] + rotate_half(src) * sin[pos]; pos is [batch or 1, length], a stride of 0 repeats.
/// A position outside the tables is reported after the loops.
template <class S, class C, class P, class D>
void rope(View<S, 4> const& src, View<C, 2> const& cosine, View<C, 2> const& sine, View<P, 2> const& positions,
          View<D, 4> const& dst) {
  using A = accumulate_t<std::remove_const_t<S>>;
  const index_t length = src.shape[1], heads = src.shape[2], half = src.shape[3] / 2;
  IndexFault fault;
  parallel_for(src.shape[0] * length, heads * half * 8, [=, &fault](index_t begin, index_t end) {
    for (index_t item = begin; item < end; ++item) {
      const index_t b = item / length, i = item % length;
      const index_t given = static_cast<index_t>(positions.data[b * positions.stride[0] + i * positions.stride[1]]);
      const index_t row = fault.bounded(given, cosine.shape[0]);
      if (row != given) continue;
      C* c = cosine.data + row * cosine.stride[0];
      C* s = sine.data + row * sine.stride[0];
      for (index_t h = 0; h < heads; ++h) {
        S* x = src.data + b * src.stride[0] + i * src.stride[1] + h * src.stride[2];
        D* y = dst.data + b * dst.stride[0] + i * dst.stride[1] + h * dst.stride[2];
        const index_t xs = src.stride[3], ys = dst.stride[3], cs = cosine.stride[1], ss = sine.stride[1];
        TILEFOUNDRY_VECTORIZE
        for (index_t j = 0; j < half; ++j) {
          const A low = convert<A>(x[j * xs]), high = convert<A>(x[(j + half) * xs]);
          y[j * ys] = convert<D>(low * convert<A>(c[j * cs]) - high * convert<A>(s[j * ss]));
          y[(j + half) * ys] =
              convert<D>(high * convert<A>(c[(j + half) * cs]) + low * convert<A>(s[(j + half) * ss]));
        }
      }
    }
  });
  fault.check("rope", cosine.shape[0]);
}

}  // namespace ops
}  // namespace tilefoundry
