/// \file registers.cuh
/// Values that one thread owns.
#pragma once

#include <cute/tensor_impl.hpp>

namespace tilefoundry {
namespace detail {

/// Storage of `N` elements, each in bytes of its own. CuTe's own engine packs a `bool` into one bit, so that a pointer
/// to its elements reaches past the storage.
template <class T, int N>
struct RegisterEngine {
  using Storage = cute::array_aligned<T, N>;
  using iterator = typename Storage::iterator;
  using reference = T&;
  using element_type = T;
  using value_type = T;
  Storage storage_;

  CUTE_HOST_DEVICE constexpr auto begin() const { return storage_.begin(); }
  CUTE_HOST_DEVICE constexpr auto begin() { return storage_.begin(); }
};

}  // namespace detail

/// A tensor of `N` elements that the calling thread owns, not initialised; `data()` points to whole elements.
template <class T, int N>
CUTE_HOST_DEVICE auto make_registers(cute::Int<N> const&) {
  if constexpr (cute::sizeof_bits_v<T> == 8 * sizeof(T)) {
    return cute::make_tensor<T>(cute::Int<N>{});
  } else {
    using Extents = cute::Layout<cute::Shape<cute::Int<N>>>;
    return cute::Tensor<detail::RegisterEngine<T, N>, Extents>{};
  }
}

}  // namespace tilefoundry
