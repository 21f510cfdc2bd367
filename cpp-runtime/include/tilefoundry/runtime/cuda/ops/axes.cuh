/// \file axes.cuh
/// `ops::axes`: what a reduction runs along.
#pragma once

#include <cute/config.hpp>

namespace tilefoundry {
namespace ops {

/// Compile-time list of logical axes.
template <int... Axis>
struct axes {
  static CUTE_HOST_DEVICE constexpr bool contains(int axis) { return ((axis == Axis) || ...); }
};

}  // namespace ops
}  // namespace tilefoundry
