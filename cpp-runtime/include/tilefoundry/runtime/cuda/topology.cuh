/// \file topology.cuh
/// Program levels: their shape, size and the id of the running instance.
#pragma once

#include <cute/layout.hpp>

namespace tilefoundry {

/// A fixed enumeration of program topology levels.
enum class TopologyScope {
  cta,          ///< blockIdx
  thread,       ///< threadIdx
  scope_count,  ///< a sentinel
};

namespace detail {
template <TopologyScope T>
inline constexpr bool is_level = T == TopologyScope::cta || T == TopologyScope::thread;

template <TopologyScope T>
inline constexpr bool unmocked = false;

/// T, made to depend on other template parameters: headers ask for a level's extent through this, so that nothing
/// is instantiated before generated code has specialised `program_shape`.
template <TopologyScope T, class...>
inline constexpr TopologyScope level_in = T;
}  // namespace detail

/// Shape of level T. Generated code specialises it with a static cute shape for every level whose extent it knows,
/// before anything that uses it; unspecialised it is the launch's extent, known at run time only.
template <TopologyScope T>
CUTE_HOST_DEVICE constexpr auto program_shape() noexcept {
  static_assert(detail::is_level<T>, "program_shape: scope_count is a sentinel, not a topology level");
#if defined(__CUDA_ARCH__)
  if constexpr (T == TopologyScope::cta) {
    return cute::make_shape(static_cast<int>(gridDim.x));
  } else {
    return cute::make_shape(static_cast<int>(blockDim.x));
  }
#else
  // Host compilation passes type-check device code; hosts that run it specialise this.
  return cute::make_shape(int(1));
#endif
}

/// Size of level T: a static integer where `program_shape<T>` is static, else the launch's extent.
template <TopologyScope T>
CUTE_HOST_DEVICE constexpr auto program_dim() noexcept {
  return cute::size(program_shape<T>());
}

/// Linear id of the running instance within level T; always a run-time query.
template <TopologyScope T>
CUTE_HOST_DEVICE auto program_id() noexcept {
  static_assert(detail::is_level<T>, "program_id: scope_count is a sentinel, not a topology level");
#if defined(__CUDA_ARCH__)
  if constexpr (T == TopologyScope::cta) {
    return static_cast<int>(blockIdx.x);
  } else {
    return static_cast<int>(threadIdx.x);
  }
#elif defined(__CUDACC__)
  return int(0);  // never run: the host pass of nvcc only type-checks this
#else
  static_assert(detail::unmocked<T>, "program_id: a host has no execution instance; specialise program_id for the test");
  return int(0);
#endif
}

}  // namespace tilefoundry
