/// \file mesh.cuh
/// `Mesh`: a layout whose axes stand for program levels, and where the running instance is on it.
#pragma once

#include <cute/container/tuple.hpp>
#include <cute/layout.hpp>

#include <tilefoundry/runtime/cuda/topology.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {
namespace detail {

/// First axis and number of axes of one level.
struct AxisGroup {
  int first, count;
};

template <int Levels>
struct AxisGroups {
  AxisGroup group[Levels];
  bool fits;  ///< every level's axes multiply to its device count
};

/// Axes to levels, right to left: a level takes trailing axes, at least one, up to the first equality with its
/// device count; the leftmost takes what is left. Extent or count -1: known at run time only.
template <int Axes, int Levels>
CUTE_HOST_DEVICE constexpr AxisGroups<Levels> group_axes(int const (&extent)[Axes], int const (&count)[Levels]) {
  AxisGroups<Levels> out{};
  out.fits = Axes >= Levels;
  int end = Axes;
  for (int level = Levels - 1; level > 0 && out.fits; --level) {
    int product = 1, first = end;
    do {
      --first;
      product = extent[first] < 0 || product < 0 ? -1 : product * extent[first];
    } while (first > level && product != count[level]);
    out.fits = product > 0 && product == count[level];
    out.group[level] = AxisGroup{first, end - first};
    end = first;
  }
  long long product = 1;
  for (int axis = 0; axis < end; ++axis) product = extent[axis] < 0 || product < 0 ? -1 : product * extent[axis];
  out.group[0] = AxisGroup{0, end};
  if (product >= 0 && count[0] >= 0) out.fits = out.fits && product == count[0];
  return out;
}

template <class T>
CUTE_HOST_DEVICE constexpr int static_or_minus_one() {
  if constexpr (cute::is_static<T>::value) {
    return static_cast<int>(cute::size(T{}));
  } else {
    return -1;
  }
}

/// Smallest stride of the axes that move at all: what one step within the level amounts to in the mesh's own
/// numbering (1 where strides are given per level, the sizes of the levels to the right where they are global).
template <class Shape, class Stride>
CUTE_HOST_DEVICE constexpr auto level_unit(Shape const& shape, Stride const& stride) {
  return cute::fold(cute::zip(cute::flatten(shape), cute::flatten(stride)), cute::Int<0>{},
                    [](auto const& best, auto const& mode) {
                      auto const extent = cute::get<0>(mode);
                      auto const step = cute::get<1>(mode);
                      if constexpr (cute::is_constant<1, decltype(extent)>::value) {
                        return best;
                      } else if constexpr (cute::is_constant<0, decltype(best)>::value) {
                        return step;
                      } else {
                        return cute::min(best, step);
                      }
                    });
}

}  // namespace detail

/// A device mesh. `topologies` lists the levels it uses, outermost first; its axes belong to them in contiguous
/// groups, matched from the right. Aggregate: `Mesh<decltype(layout), Topos...>{layout}`.
template <class MeshLayout, TopologyScope... Topos>
struct Mesh {
  static_assert(sizeof...(Topos) > 0, "Mesh: name at least one topology level");
  static_assert(cute::is_layout<MeshLayout>::value, "Mesh: the first argument must be a cute layout");

  MeshLayout mesh_layout;                                         ///< a CuTe-compatible layout
  static constexpr auto topologies = cute::make_tuple(Topos...);  ///< the levels, part of the type
  static constexpr int rank = MeshLayout::rank;                   ///< number of axes
  static constexpr int levels = sizeof...(Topos);

  /// Axes of each level; its static_asserts hold as soon as anything asks for a coordinate.
  static CUTE_HOST_DEVICE constexpr detail::AxisGroups<levels> axis_groups() {
    constexpr auto groups = compute_groups(cute::make_seq<rank>{});
    static_assert(groups.fits,
                  "Mesh: axes and program levels do not match; for each level, right to left, the product of its "
                  "trailing axes must equal the level's device count");
    return groups;
  }

  /// Coordinate of the running instance, one entry per axis.
  CUTE_HOST_DEVICE auto local_index() const noexcept { return concat_levels(cute::make_seq<levels>{}); }

 private:
  template <int... I>
  static CUTE_HOST_DEVICE constexpr detail::AxisGroups<levels> compute_groups(cute::seq<I...>) {
    const int extent[] = {detail::static_or_minus_one<cute::tuple_element_t<I, wrapped_shape>>()...};
    const int count[] = {detail::static_or_minus_one<decltype(program_shape<Topos>())>()...};
    return detail::group_axes<rank, levels>(extent, count);
  }

  using wrapped_shape = decltype(cute::wrap(stdx::declval<MeshLayout const&>().shape()));

  template <int Level>
  CUTE_HOST_DEVICE auto level_index() const noexcept {
    constexpr detail::AxisGroup group = axis_groups().group[Level];
    constexpr TopologyScope scopes[] = {Topos...};
    const auto shape = cute::take<group.first, group.first + group.count>(cute::wrap(mesh_layout.shape()));
    const auto stride = cute::take<group.first, group.first + group.count>(cute::wrap(mesh_layout.stride()));
    const auto unit = detail::level_unit(shape, stride);
    if constexpr (cute::is_constant<0, decltype(unit)>::value) {
      return cute::transform(shape, [](auto const&) { return cute::Int<0>{}; });
    } else {
      return cute::idx2crd(program_id<scopes[Level]>() * unit, shape, stride);
    }
  }

  template <int... Level>
  CUTE_HOST_DEVICE auto concat_levels(cute::seq<Level...>) const noexcept {
    return cute::tuple_cat(level_index<Level>()...);
  }
};

/// Mesh over `layout`: `make_mesh<TopologyScope::cta, TopologyScope::thread>(layout)`.
template <TopologyScope... Topos, class MeshLayout>
CUTE_HOST_DEVICE constexpr auto make_mesh(MeshLayout const& layout) {
  return Mesh<MeshLayout, Topos...>{layout};
}

}  // namespace tilefoundry
