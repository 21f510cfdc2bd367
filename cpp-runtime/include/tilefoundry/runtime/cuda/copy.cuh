/// \file copy.cuh
/// `tilefoundry::copy` between sharded and plain tensors, with wide paths.
#pragma once

#include <cute/tensor_impl.hpp>

#include <tilefoundry/runtime/cuda/local.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {
namespace detail {

/// Element by element in CuTe's order, several together where layouts and addresses allow.
template <class Src, class Dst>
CUTE_HOST_DEVICE void copy_static(Src const& src, Dst const& dst) {
  using Guide = decltype(guide_layout<Dst, Src>());
  constexpr bool reorder = modes_correspond<typename Src::layout_type, typename Dst::layout_type>();
  auto s = cute::make_tensor(src.data(), enumerate_like<reorder, Guide>(src.layout()));
  auto d = cute::make_tensor(dst.data(), enumerate_like<reorder, Guide>(dst.layout()));
  constexpr int size = decltype(cute::size(dst.layout()))::value;
  constexpr int n = common_pack<decltype(s), decltype(d)>(size);
  if constexpr (n > 1 && packs_stay_aligned<n, decltype(s), decltype(d)>()) {
    if (pack_aligned<n>(s) && pack_aligned<n>(d)) {
      CUTE_UNROLL
      for (int i = 0; i < size; i += n) store_pack<n>(d, i, load_pack<n>(s, i));
      return;
    }
  }
  CUTE_UNROLL
  for (int i = 0; i < size; ++i) store_pack<1>(d, i, load_pack<1>(s, i));
}

template <class Src, class Dst>
CUTE_HOST_DEVICE void copy_views(Src const& src, Dst const& dst) {
  using S = typename Src::value_type;
  using D = typename Dst::value_type;
  static_assert(stdx::is_same_v<stdx::remove_cv_t<S>, D>,
                "tilefoundry::copy: source and destination hold different element types; use ops::cast");
  using LS = typename Src::layout_type;
  using LD = typename Dst::layout_type;
  if constexpr (cute::is_static<LS>::value && cute::is_static<LD>::value) {
    static_assert(decltype(cute::size(LS{}))::value == decltype(cute::size(LD{}))::value,
                  "tilefoundry::copy: source and destination hold different numbers of elements");
    copy_static(src, dst);
  } else {
    auto const size = cute::size(dst);
    for (decltype(size + 0) i = 0; i < size; ++i) const_cast<D*>(raw(dst))[dst.layout()(i)] = raw(src)[src.layout()(i)];
  }
}

/// Row-major strides of a flat shape.
template <class Shape>
CUTE_HOST_DEVICE constexpr auto row_major(Shape const& shape) {
  return cute::make_layout(shape, cute::LayoutRight{});
}

/// Layout that maps a canonical coordinate of G to the offset of the same element in a plain tensor that is the
/// row-major reshape of G (equal shapes in particular).
template <class G, class Layout>
CUTE_HOST_DEVICE constexpr auto reshape_to(Layout const& plain, G const& g) {
  // Row-major numbers of G's coordinates, looked up in the plain layout with its modes reversed (CuTe counts from
  // the first mode, row-major order from the last).
  auto const reversed = cute::make_layout(cute::reverse(cute::flatten(cute::wrap(plain.shape()))),
                                          cute::reverse(cute::flatten(cute::wrap(plain.stride()))));
  return cute::composition(reversed, row_major(g));
}

/// `project` for layouts whose modes may be nested (a reshape nests them).
template <class Iterator, class SL, int... K>
CUTE_HOST_DEVICE auto slice_modes(Iterator const& base, SL const& sl, cute::seq<K...>) {
  auto const coord = sl.mesh.local_index();
  // Along split axes the instance's coordinate; elsewhere `rest`: 0 for the offset, everything for the view.
  auto at = [&](auto k, auto rest) {
    constexpr int m = ShardFacts<SL>::template splitter<decltype(k)::value>();
    if constexpr (m >= 0) {
      return cute::get<m>(coord);
    } else {
      return rest;
    }
  };
  auto const first = base + sl.layout(cute::make_coord(at(cute::Int<K>{}, cute::Int<0>{})...));
  auto crd = cute::make_coord(at(cute::Int<K>{}, cute::Underscore{})...);
  if constexpr (cute::has_underscore<decltype(crd)>::value) {
    return cute::make_tensor(first, cute::slice(crd, sl.layout));
  } else {
    return cute::make_tensor(first, cute::make_layout(cute::Int<1>{}));
  }
}

template <class Iterator, class SL>
CUTE_HOST_DEVICE auto project_modes(Iterator const& base, SL const& sl) {
  static_assert(ShardFacts<SL>::check(), "copy: the ShardLayout is inconsistent");
  return slice_modes(base, sl, cute::make_seq<SL::rank>{});
}

/// The instance's part of a plain tensor that holds the whole value described by `sl`.
template <class Plain, class SL>
CUTE_HOST_DEVICE auto part_of_plain(Plain const& plain, SL const& sl) {
  auto const whole = reshape_to(plain.layout(), cute::wrap(sl.layout.shape()));
  auto const addressed = make_shard_layout(whole, sl.attrs, sl.mesh);
  return project_modes(plain.data(), addressed);
}

/// A plain tensor that holds what `own` holds, as a row-major reshape of it, with own's modes.
template <class Plain, class Own>
CUTE_HOST_DEVICE auto plain_as(Plain const& plain, Own const& own) {
  using P = decltype(cute::flatten(cute::wrap(plain.shape())));
  using O = decltype(cute::flatten(cute::wrap(own.shape())));
  if constexpr (may_equal<P, O>()) {
    return cute::make_tensor(plain.data(), plain.layout());
  } else {
    return cute::make_tensor(plain.data(), reshape_to(plain.layout(), cute::wrap(own.shape())));
  }
}

/// Whether a plain tensor of this type holds the whole value, not the instance's part. Where nothing is split the two
/// are one: both are row-major reshapes.
template <class Plain, class SL>
CUTE_HOST_DEVICE constexpr bool holds_whole_value() {
  using Local = decltype(cute::size(shard_layout_local_shape(stdx::declval<SL const&>())));
  using Whole = decltype(cute::size(stdx::declval<SL const&>().layout));
  using Size = decltype(cute::size(stdx::declval<Plain const&>()));
  if constexpr (cute::is_static<Local>::value && cute::is_static<Whole>::value && cute::is_static<Size>::value) {
    static_assert(int(Size::value) == int(Local::value) || int(Size::value) == int(Whole::value),
                  "tilefoundry::copy: the plain tensor must hold either the instance's part or the whole value");
    return int(Size::value) != int(Local::value);
  } else {
    return !cute::is_static<Size>::value;
  }
}

}  // namespace detail

/// Copy a sharded value into a plain tensor. Every instance takes part and writes what it owns.
///
/// A dst as large as the canonical shape holds the whole value: all instances together fill it. A dst as large as one
/// instance's part is that instance's own. A dst of dynamic size counts as whole. Either way dst is the row-major
/// reshape of the canonical (or local) shape, coordinate for coordinate where the extents are equal. No barrier and no
/// workspace: an instance sees at once what it wrote itself, the others' elements after a barrier.
template <class T, class GL, class SL, class DT>
CUTE_HOST_DEVICE void copy(ShardTensor<T, GL, SL> const& src, DT& dst) {
  static_assert(!stdx::is_pointer_v<DT>, "tilefoundry::copy: wrap a raw pointer first, as in as_gmem(p, layout)");
  if constexpr (detail::holds_whole_value<DT, SL>()) {
    auto part = detail::part_of_plain(dst, src.shard_layout);
    auto own = detail::project_modes(src.engine.data(), src.shard_layout);
    detail::copy_views(own, part);
  } else {
    auto own = local(src);
    detail::copy_views(own, detail::plain_as(dst, own));
  }
}

/// Copy a plain tensor into a sharded value; the mirror of the overload above. Every instance takes part and reads what
/// it owns.
template <class ST, class T, class GL, class SL>
CUTE_HOST_DEVICE void copy(ST const& src, ShardTensor<T, GL, SL>& dst) {
  static_assert(!stdx::is_pointer_v<ST>, "tilefoundry::copy: wrap a raw pointer first, as in as_gmem(p, layout)");
  if constexpr (detail::holds_whole_value<ST, SL>()) {
    auto part = detail::part_of_plain(src, dst.shard_layout);
    auto own = detail::project_modes(dst.engine.data(), dst.shard_layout);
    detail::copy_views(part, own);
  } else {
    auto own = local(dst);
    detail::copy_views(detail::plain_as(src, own), own);
  }
}

/// Copy between two plain tensors of equal size, in CuTe's order. Each calling thread copies its own operands.
template <class SrcEngine, class SrcLayout, class DstEngine, class DstLayout>
CUTE_HOST_DEVICE void copy(cute::Tensor<SrcEngine, SrcLayout> const& src, cute::Tensor<DstEngine, DstLayout>& dst) {
  detail::copy_views(detail::plain_view(src), detail::plain_view(dst));
}

namespace detail {

/// Step along an axis, 0 where its extent is 1 and the stride addresses nothing.
struct MovingStep {
  template <class Extent, class Step>
  CUTE_HOST_DEVICE constexpr auto operator()(Extent const&, Step const& step) const {
    if constexpr (cute::is_constant<1, Extent>::value) {
      return cute::Int<0>{};
    } else {
      return step;
    }
  }
};

template <class Layout>
CUTE_HOST_DEVICE constexpr auto moving_strides(Layout const& layout) {
  return cute::transform(cute::flatten(cute::wrap(layout.shape())), cute::flatten(cute::wrap(layout.stride())), MovingStep{});
}

/// Whether meshes of two types can number their instances alike.
template <class A, class B>
inline constexpr bool meshes_agree = false;
template <class A, class B, TopologyScope... Topos>
inline constexpr bool meshes_agree<Mesh<A, Topos...>, Mesh<B, Topos...>> =
    may_equal<shape_of_t<A>, shape_of_t<B>>() &&
    may_equal<decltype(moving_strides(stdx::declval<A const&>())), decltype(moving_strides(stdx::declval<B const&>()))>();

/// Whether two shardings can give each instance the same elements in the same order.
template <class SL, class TL>
CUTE_HOST_DEVICE constexpr bool ownerships_agree() {
  return stdx::is_same_v<typename SL::attrs_type, typename TL::attrs_type> &&
         meshes_agree<typename SL::mesh_type, typename TL::mesh_type> &&
         may_equal<shape_of_t<typename SL::layout_type>, shape_of_t<typename TL::layout_type>>();
}

}  // namespace detail

/// Copy between two shardings of one value in which each instance owns the same part (memory space and strides may
/// differ): equal attributes, meshes and canonical shapes. Each instance copies its own part and sees it at once. Changing
/// the ownership goes through a plain tensor and a barrier.
template <class T, class GL, class SL, class U, class HL, class TL>
CUTE_HOST_DEVICE void copy(ShardTensor<T, GL, SL> const& src, ShardTensor<U, HL, TL>& dst) {
  static_assert(detail::ownerships_agree<SL, TL>(),
                "tilefoundry::copy: the two shardings give instances different parts; copy through a plain tensor "
                "with a barrier in between");
  detail::copy_views(local(src), local(dst));
}

}  // namespace tilefoundry
