/// \file shard_tensor.cuh
/// `ShardTensor`: a CuTe tensor together with its shard layout.
#pragma once

#include <cute/tensor_impl.hpp>

#include <tilefoundry/runtime/cuda/shard_layout.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {
namespace detail {

/// Whether an engine holds its elements itself (registers) instead of pointing at them.
template <class Tensor>
inline constexpr bool owns_elements = false;
template <class T, size_t N, class Layout>
inline constexpr bool owns_elements<cute::Tensor<cute::ArrayEngine<T, N>, Layout>> = true;

template <class T>
CUTE_HOST_DEVICE constexpr void require_tensor() {
  static_assert(!stdx::is_pointer_v<stdx::remove_cv_t<T>>,
                "make_shard_tensor: a raw pointer has lost its memory space; wrap it first, as in "
                "cute::make_tensor(cute::make_gmem_ptr(p), layout)");
  static_assert(stdx::is_pointer_v<stdx::remove_cv_t<T>> || cute::is_tensor<T>::value,
                "make_shard_tensor: the first argument must be a cute tensor or view");
}

}  // namespace detail

/// A tensor in gmem, smem or registers with its place on a mesh. The engine keeps the memory space.
template <class Engine_, class GlobalLayout_, class ShardLayout_>
struct ShardTensor {
  using engine_type = Engine_;
  using global_layout_type = GlobalLayout_;
  using shard_layout_type = ShardLayout_;

  Engine_ engine;             ///< CuTe tensor or view, what this instance holds
  ShardLayout_ shard_layout;  ///< a value: dynamic dims carry real extents

  /// Raw pointer of the wrapped tensor. It has no memory space any more: use it only where that no longer
  /// matters (an MMA fragment), `local()` everywhere else.
  CUTE_HOST_DEVICE constexpr auto data() { return cute::raw_pointer_cast(engine.data()); }
  CUTE_HOST_DEVICE constexpr auto data() const { return cute::raw_pointer_cast(engine.data()); }
};

template <class T>
struct is_shard_tensor : cute::false_type {};
template <class E, class GL, class SL>
struct is_shard_tensor<ShardTensor<E, GL, SL>> : cute::true_type {};

/// Bind a global layout (a type-level fact: logical shape) and a shard layout onto a CuTe tensor.
/// An owning register tensor is copied in; write to it through `local()` of the ShardTensor.
template <class T, class GL, class SL>
CUTE_HOST_DEVICE constexpr auto make_shard_tensor(T const& tensor, GL global_layout, SL shard_layout)
    -> ShardTensor<T, GL, SL> {
  static_cast<void>(global_layout);
  detail::require_tensor<T>();
  static_assert(is_shard_layout<SL>::value, "make_shard_tensor: the third argument must be a ShardLayout");
  return ShardTensor<T, GL, SL>{tensor, shard_layout};
}

}  // namespace tilefoundry
