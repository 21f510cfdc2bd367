/// \file select.cuh
/// `ops::select`: one of two values by a condition.
#pragma once

#include <tilefoundry/runtime/cuda/ops/elementwise.cuh>
#include <tilefoundry/runtime/cuda/ops/unary_tags.cuh>

namespace tilefoundry {
namespace ops {
namespace select_impl {

struct Select {
  template <class D, class C, class A, class B>
  __device__ D operator()(C condition, A a, B b) const {
    return condition ? convert<D>(widen(a)) : convert<D>(widen(b));
  }
};

}  // namespace select_impl

/// dst[i] = condition[i] ? a[i] : b[i], rounded once. Each calling thread works on its own operands; no
/// communication, no workspace, the result is valid in the calling thread. Modes of extent 1 or stride 0 broadcast.
template <class Condition, class A, class B, class Dst>
__device__ void select(Condition const& condition, A const& a, B const& b, Dst&& dst) {
  auto const d = ::tilefoundry::detail::plain_view(dst);
  auto const c = elementwise_impl::broadcast_view(::tilefoundry::detail::plain_view(condition), d);
  auto const x = elementwise_impl::broadcast_view(::tilefoundry::detail::plain_view(a), d);
  auto const y = elementwise_impl::broadcast_view(::tilefoundry::detail::plain_view(b), d);
  elementwise_impl::map(select_impl::Select{}, d, c, x, y);
}

}  // namespace ops
}  // namespace tilefoundry
