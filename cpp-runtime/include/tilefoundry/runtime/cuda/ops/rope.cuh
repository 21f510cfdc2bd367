/// \file rope.cuh
/// `ops::rope`: rotary position embedding of one tensor [batch, length, heads, dim].
#pragma once

#include <tilefoundry/runtime/cuda/view.cuh>

namespace tilefoundry {
namespace ops {

/// dst = src * cos[pos] + rotate_half(src) * sin[pos]; pos is [batch or 1, length], a stride of 0 repeats. All
/// threads of all blocks share the elements, which are visible to other threads after a barrier over them. A position
/// outside the tables stops the kernel. No workspace.
template <class S, class C, class P, class D>
__device__ void rope(View<S, 4> const& src, View<C, 2> const& cosine, View<C, 2> const& sine,
                     View<P, 2> const& positions, View<D, 4> const& dst) {
  using A = accumulate_t<stdx::remove_const_t<S>>;
  const index_t length = src.shape[1], heads = src.shape[2], half = src.shape[3] / 2;
  const IndexFault fault{"rope"};
  ::tilefoundry::detail::share(src.shape[0] * length * heads * half, [&](index_t item) {
    const index_t j = item % half, h = item / half % heads, i = item / half / heads % length;
    const index_t b = item / half / heads / length;
    const index_t row = fault.bounded(
        static_cast<index_t>(positions.data[b * positions.stride[0] + i * positions.stride[1]]), cosine.shape[0]);
    C* const c = cosine.data + row * cosine.stride[0];
    C* const s = sine.data + row * sine.stride[0];
    S* const x = src.data + b * src.stride[0] + i * src.stride[1] + h * src.stride[2];
    D* const y = dst.data + b * dst.stride[0] + i * dst.stride[1] + h * dst.stride[2];
    using T = stdx::remove_const_t<S>;
    using U = stdx::remove_const_t<C>;
    const A low = convert<A>(T(x[j * src.stride[3]])), high = convert<A>(T(x[(j + half) * src.stride[3]]));
    auto table = [&](C* t, index_t step, index_t at) { return convert<A>(U(t[at * step])); };
    y[j * dst.stride[3]] =
        convert<D>(low * table(c, cosine.stride[1], j) - high * table(s, sine.stride[1], j));
    y[(j + half) * dst.stride[3]] =
        convert<D>(high * table(c, cosine.stride[1], j + half) + low * table(s, sine.stride[1], j + half));
  });
}

}  // namespace ops
}  // namespace tilefoundry
