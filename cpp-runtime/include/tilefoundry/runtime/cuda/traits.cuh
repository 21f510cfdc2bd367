/// \file traits.cuh
/// The standard library as device compilers have it: NVRTC brings no `<type_traits>` of its own.
#pragma once

#include <cuda/std/cstdint>
#include <cuda/std/limits>
#include <cuda/std/type_traits>
#include <cuda/std/utility>

namespace tilefoundry {
namespace stdx = ::cuda::std;
}
