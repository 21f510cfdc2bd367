/// \file unary.cuh
/// `ops::unary`: the public entry of the unary family, the tag as an argument.
#pragma once

#include <tilefoundry/runtime/cuda/ops/elementwise.cuh>
#include <tilefoundry/runtime/cuda/ops/unary_tags.cuh>

namespace tilefoundry {
namespace ops {
namespace unary_impl {

/// Skeleton of unary, cast, clamp and copy_n: read, widen, apply the tag, round once into the output type.
template <class Op>
struct Unary {
  Op op;

  template <class D, class S>
  __device__ D operator()(S x) const {
    if constexpr (is_small_float_v<S> && has_approximation<Op>) {
      return convert<D>(approximate<Op>{}(widen(x)));
    } else {
      return convert<D>(op(widen(x)));
    }
  }

  template <class Src, class Dst>
  __device__ void run(Src const& src, Dst& dst) const {
    auto const d = ::tilefoundry::detail::plain_view(dst);
    auto const s = elementwise_impl::broadcast_view(::tilefoundry::detail::plain_view(src), d);
    elementwise_impl::map(*this, d, s);
  }
};

}  // namespace unary_impl

/// dst[i] = op(src[i]). Each calling thread works on its own operands (sharded ones are projected); no
/// communication, no workspace, the result is valid in the calling thread. src may be dst.
template <class Op, class Src, class Dst>
__device__ void unary(Op op, Src const& src, Dst&& dst) {
  unary_impl::Unary<Op>{op}.run(src, dst);
}

}  // namespace ops
}  // namespace tilefoundry
