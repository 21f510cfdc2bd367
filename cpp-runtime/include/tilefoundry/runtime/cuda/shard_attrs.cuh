/// \file shard_attrs.cuh
/// Shard attributes, one per mesh axis: compile-time tags.
#pragma once

namespace tilefoundry {
namespace shard {

/// Split along canonical axis `Axis`.
template <int Axis>
struct S {};
/// Broadcast: every instance along the mesh axis holds the same values.
struct B {};
/// Partial: the value is the `Reduction` over the instances along the mesh axis.
template <class Reduction>
struct P {};
/// Known at run time only; must be resolved before a tensor is projected.
struct Dynamic {};

}  // namespace shard

namespace detail {

template <class Attr>
struct split_axis {
  static constexpr bool is_split = false;
  static constexpr int axis = -1;
};
template <int Axis>
struct split_axis<shard::S<Axis>> {
  static constexpr bool is_split = true;
  static constexpr int axis = Axis;
};

template <class Attr>
inline constexpr bool is_partial = false;
template <class Reduction>
inline constexpr bool is_partial<shard::P<Reduction>> = true;

template <class Attr>
inline constexpr bool is_dynamic_attr = false;
template <>
inline constexpr bool is_dynamic_attr<shard::Dynamic> = true;

}  // namespace detail
}  // namespace tilefoundry
