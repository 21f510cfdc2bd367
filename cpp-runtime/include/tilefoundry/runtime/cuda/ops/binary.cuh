/// \file binary.cuh
/// `ops::binary`: the public entry of the binary family; modes of extent 1 or stride 0 broadcast.
#pragma once

#include <tilefoundry/runtime/cuda/ops/binary_tags.cuh>
#include <tilefoundry/runtime/cuda/ops/elementwise.cuh>

namespace tilefoundry {
namespace ops {
namespace binary_impl {

/// The type in which two operands meet: their own if equal, else the wider float, else the wider integer.
template <class X, class Y>
using meet_t = stdx::conditional_t<stdx::is_same_v<X, Y>, X, stdx::common_type_t<X, Y>>;

template <class Op>
struct Binary {
  Op op;

  template <class D, class A, class B>
  __device__ D operator()(A a, B b) const {
    using C = meet_t<compute_t<A>, compute_t<B>>;
    return convert<D>(op(convert<C>(widen(a)), convert<C>(widen(b))));
  }
};

}  // namespace binary_impl

/// dst[i] = op(lhs[i], rhs[i]), rounded once. Each calling thread works on its own operands; no communication, no
/// workspace, the result is valid in the calling thread. dst may be lhs or rhs where neither is broadcast.
template <class Op, class Lhs, class Rhs, class Dst>
__device__ void binary(Op op, Lhs const& lhs, Rhs const& rhs, Dst&& dst) {
  auto const d = ::tilefoundry::detail::plain_view(dst);
  auto const a = elementwise_impl::broadcast_view(::tilefoundry::detail::plain_view(lhs), d);
  auto const b = elementwise_impl::broadcast_view(::tilefoundry::detail::plain_view(rhs), d);
  elementwise_impl::map(binary_impl::Binary<Op>{op}, d, a, b);
}

}  // namespace ops
}  // namespace tilefoundry
