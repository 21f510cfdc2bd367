/// \file shard_layout.cuh
/// `ShardLayout`: layout, attributes and mesh of a distributed tensor, usable as a `cute::Tensor`'s layout.
#pragma once

#include <cute/container/tuple.hpp>
#include <cute/layout.hpp>

#include <tilefoundry/runtime/cuda/mesh.cuh>
#include <tilefoundry/runtime/cuda/shard_attrs.cuh>
#include <tilefoundry/runtime/cuda/traits.cuh>

namespace tilefoundry {

/// A plain aggregate. `layout` has the canonical global shape G and storage strides; `attrs` is a cute tuple with
/// one attribute per mesh axis. `Split(k)` means that instance i of that mesh axis holds index i of G[k].
template <class Layout, class Attrs, class Mesh>
struct ShardLayout {
  using layout_type = Layout;
  using attrs_type = Attrs;
  using mesh_type = Mesh;
  static constexpr int rank = Layout::rank;

  Layout layout;  ///< canonical global shape, storage strides
  Attrs attrs;    ///< shard attributes, ordered by mesh axis
  Mesh mesh;      ///< the bound device domain

  CUTE_HOST_DEVICE constexpr decltype(auto) shape() const { return layout.shape(); }
  CUTE_HOST_DEVICE constexpr decltype(auto) stride() const { return layout.stride(); }
  /// Storage offset of a canonical coordinate.
  template <class Coord>
  CUTE_HOST_DEVICE constexpr auto operator()(Coord const& coord) const {
    return layout(coord);
  }
};

template <class Layout, class Attrs, class Mesh>
ShardLayout(Layout, Attrs, Mesh) -> ShardLayout<Layout, Attrs, Mesh>;

/// `ShardLayout` value from its parts.
template <class Layout, class Attrs, class Mesh>
CUTE_HOST_DEVICE constexpr auto make_shard_layout(Layout const& layout, Attrs const& attrs, Mesh const& mesh) {
  return ShardLayout<Layout, Attrs, Mesh>{layout, attrs, mesh};
}

template <class T>
struct is_shard_layout : cute::false_type {};
template <class L, class A, class M>
struct is_shard_layout<ShardLayout<L, A, M>> : cute::true_type {};

namespace detail {

template <class A, class B>
CUTE_HOST_DEVICE constexpr bool may_equal();

template <class A, class B, int... I>
CUTE_HOST_DEVICE constexpr bool modes_may_equal(cute::seq<I...>) {
  return (may_equal<cute::tuple_element_t<I, A>, cute::tuple_element_t<I, B>>() && ... && true);
}

/// Whether two shapes or strides of these types can be equal: same profile, and equal where both are static.
template <class A, class B>
CUTE_HOST_DEVICE constexpr bool may_equal() {
  if constexpr (cute::is_tuple<A>::value && cute::is_tuple<B>::value) {
    if constexpr (cute::tuple_size<A>::value == cute::tuple_size<B>::value) {
      return modes_may_equal<A, B>(cute::make_seq<cute::tuple_size<A>::value>{});
    } else {
      return false;
    }
  } else if constexpr (cute::is_tuple<A>::value || cute::is_tuple<B>::value) {
    return false;
  } else if constexpr (cute::is_static<A>::value && cute::is_static<B>::value) {
    return A::value == B::value;
  } else {
    return true;
  }
}

/// Shape of a layout type, as a tuple.
template <class Layout>
using shape_of_t = stdx::remove_cvref_t<decltype(cute::wrap(stdx::declval<Layout const&>().shape()))>;

/// Compile-time facts about a ShardLayout type; instantiating it checks what is static.
template <class SL>
struct ShardFacts {
  using Attrs = typename SL::attrs_type;
  static constexpr int rank = SL::rank;
  static constexpr int axes = cute::tuple_size<Attrs>::value;
  static_assert(axes == SL::mesh_type::rank, "ShardLayout: attrs must name one attribute per mesh axis");

  template <int M>
  using attr = cute::tuple_element_t<M, Attrs>;

  /// Mesh axis that splits canonical axis K, or -1.
  template <int K>
  static CUTE_HOST_DEVICE constexpr int splitter() {
    return find_splitter<K>(cute::make_seq<axes>{});
  }

  template <int M>
  static CUTE_HOST_DEVICE constexpr bool attr_is_valid() {
    using Attr = attr<M>;
    static_assert(!is_dynamic_attr<Attr>,
                  "local: a Dynamic shard attribute must be resolved to S, B or P before the tensor is projected");
    if constexpr (split_axis<Attr>::is_split) {
      constexpr int k = split_axis<Attr>::axis;
      static_assert(k >= 0 && k < rank, "ShardLayout: S<Axis> is outside the canonical shape");
      static_assert(splitter<k>() == M, "ShardLayout: two mesh axes split one canonical axis; factor it into two");
      using Extent = decltype(cute::size<k>(stdx::declval<SL const&>().shape()));
      using Devices = decltype(cute::size<M>(stdx::declval<SL const&>().mesh.mesh_layout));
      if constexpr (cute::is_static<Extent>::value && cute::is_static<Devices>::value) {
        static_assert(int(Extent::value) == int(Devices::value),
                      "ShardLayout: a split canonical extent must equal the extent of the mesh axis that splits it");
      }
    }
    return true;
  }

  static CUTE_HOST_DEVICE constexpr bool check() { return check_all(cute::make_seq<axes>{}); }

 private:
  template <int K, int... M>
  static CUTE_HOST_DEVICE constexpr int find_splitter(cute::seq<M...>) {
    int found = -1;
    ((found = found < 0 && split_axis<attr<M>>::axis == K ? M : found), ...);
    return found;
  }
  template <int... M>
  static CUTE_HOST_DEVICE constexpr bool check_all(cute::seq<M...>) {
    return (attr_is_valid<M>() && ...);
  }
};

template <class SL, int... K>
CUTE_HOST_DEVICE constexpr auto local_shape(SL const& sl, cute::seq<K...>) {
  auto extent = [&](auto k) {
    if constexpr (ShardFacts<SL>::template splitter<decltype(k)::value>() >= 0) {
      return cute::Int<1>{};
    } else {
      return cute::get<decltype(k)::value>(cute::wrap(sl.layout.shape()));
    }
  };
  return cute::make_shape(extent(cute::Int<K>{})...);
}

}  // namespace detail

/// What one instance holds of the canonical shape: 1 along split axes, G elsewhere; static extents stay static.
template <class SL>
CUTE_HOST_DEVICE constexpr auto shard_layout_local_shape(SL const& sl) {
  static_assert(is_shard_layout<SL>::value, "shard_layout_local_shape: the argument must be a ShardLayout");
  static_assert(detail::ShardFacts<SL>::check(), "shard_layout_local_shape: the ShardLayout is inconsistent");
  return detail::local_shape(sl, cute::make_seq<SL::rank>{});
}

}  // namespace tilefoundry

// cute::make_tensor(iterator, shard_layout) forwards a layout as it is only when it knows it for one.
namespace cute {
template <class L, class A, class M>
struct is_layout<tilefoundry::ShardLayout<L, A, M>> : true_type {};
}  // namespace cute
