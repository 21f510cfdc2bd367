/// \file local.cuh
/// `local` and `shard_partition`: what the running instance owns of a distributed tensor.
///
/// One formula over all storages: the offset is the sum of coordinate times stride over the split axes. A split
/// stride of 0 says that the engine already is the instance's own; then the contribution vanishes.
#pragma once

#include <cute/tensor_impl.hpp>

#include <tilefoundry/runtime/cuda/shard_tensor.cuh>

namespace tilefoundry {
namespace detail {

/// Whether every offset of `Layout` is known to fit an int; otherwise offsets are formed in 64 bits.
template <class Layout>
CUTE_HOST_DEVICE constexpr bool offsets_fit_int() {
  if constexpr (cute::is_static<Layout>::value) {
    long long top = 0;
    cute::for_each(cute::zip(cute::flatten(cute::wrap(Layout{}.shape())), cute::flatten(cute::wrap(Layout{}.stride()))),
                   [&](auto const& mode) {
                     top += (static_cast<long long>(cute::get<0>(mode)) - 1) * static_cast<long long>(cute::get<1>(mode));
                   });
    return top <= 0x7fffffffLL;
  } else {
    return false;
  }
}

template <class SL, class Coord, int... M>
CUTE_HOST_DEVICE constexpr auto shard_offset(SL const& sl, Coord const& coord, cute::seq<M...>) {
  auto term = [&](auto m) {
    using Attr = typename ShardFacts<SL>::template attr<decltype(m)::value>;
    if constexpr (split_axis<Attr>::is_split) {
      auto const step = cute::get<split_axis<Attr>::axis>(cute::wrap(sl.layout.stride()));
      auto const at = cute::get<decltype(m)::value>(coord);
      if constexpr (cute::is_static<decltype(step)>::value && offsets_fit_int<typename SL::layout_type>()) {
        return at * step;
      } else if constexpr (cute::is_constant<0, decltype(step)>::value) {
        return cute::Int<0>{};
      } else {
        return static_cast<long long>(at) * static_cast<long long>(step);
      }
    } else {
      return cute::Int<0>{};
    }
  };
  return (cute::Int<0>{} + ... + term(cute::Int<M>{}));
}

template <class Iterator, class SL>
CUTE_HOST_DEVICE constexpr auto project(Iterator const& base, SL const& sl) {
  auto const shape = shard_layout_local_shape(sl);
  auto const offset = shard_offset(sl, sl.mesh.local_index(), cute::make_seq<ShardFacts<SL>::axes>{});
  return cute::make_tensor(base + offset, cute::make_layout(shape, cute::wrap(sl.layout.stride())));
}

}  // namespace detail

/// View of what the running instance owns of `t`, in the memory space of t's engine. Any instance may call it; it
/// reads no memory. Static extents stay static.
template <class E, class GL, class SL>
CUTE_HOST_DEVICE auto local(ShardTensor<E, GL, SL> const& t) noexcept {
  return detail::project(t.engine.data(), t.shard_layout);
}

/// The same for a ShardTensor that may be written: registers that it holds itself give a mutable view.
template <class E, class GL, class SL>
CUTE_HOST_DEVICE auto local(ShardTensor<E, GL, SL>& t) noexcept {
  return detail::project(t.engine.data(), t.shard_layout);
}

/// A temporary may be projected only where its engine is a view.
template <class E, class GL, class SL>
CUTE_HOST_DEVICE auto local(ShardTensor<E, GL, SL>&& t) noexcept {
  static_assert(!detail::owns_elements<E>,
                "local: the registers of a temporary ShardTensor die with it; name the ShardTensor first");
  return detail::project(t.engine.data(), t.shard_layout);
}

/// View of what the running instance owns of a cute::Tensor whose layout is a ShardLayout, with a plain layout.
template <class Tensor>
CUTE_HOST_DEVICE auto shard_partition(Tensor const& tensor) {
  static_assert(cute::is_tensor<Tensor>::value, "shard_partition: the argument must be a cute tensor");
  static_assert(is_shard_layout<typename Tensor::layout_type>::value,
                "shard_partition: the tensor's layout must be a ShardLayout; a plain tensor is already local");
  return detail::project(tensor.data(), tensor.layout());
}

namespace detail {

/// The plain view that an op works on: the local part of anything sharded, a plain tensor as it is.
template <class T>
CUTE_HOST_DEVICE auto plain_view(T&& t) {
  using Bare = stdx::remove_cv_t<stdx::remove_reference_t<T>>;
  static_assert(!stdx::is_pointer_v<Bare>,
                "ops: a raw pointer is accepted at kernel boundaries only; wrap it, as in as_gmem(p, layout)");
  if constexpr (is_shard_tensor<Bare>::value) {
    return local(static_cast<T&>(t));
  } else if constexpr (is_shard_layout<typename Bare::layout_type>::value) {
    return shard_partition(t);
  } else {
    return cute::make_tensor(t.data(), t.layout());
  }
}

}  // namespace detail

/// Wrap a kernel parameter as a gmem tensor: the one place where a bare pointer is taken.
template <class T, class Layout>
CUTE_HOST_DEVICE constexpr auto as_gmem(T* pointer, Layout const& layout) {
  return cute::make_tensor(cute::make_gmem_ptr(pointer), layout);
}

}  // namespace tilefoundry
