/// \file reduce_plan.cuh
/// What a reduction has to do, derived at compile time from operand layouts: which local modes a thread folds by
/// itself, which thread groups combine, and through what. Layouts alone are asked, so that a host compiles it too.
#pragma once

#include <tilefoundry/runtime/cuda/local.cuh>
#include <tilefoundry/runtime/cuda/ops/axes.cuh>
#include <tilefoundry/runtime/cuda/vector.cuh>

namespace tilefoundry {
namespace ops {
namespace reduce_impl {

namespace core = ::tilefoundry::detail;

/// Threads whose ids differ by multiples of `step`, `extent` of them: one group of a cross-thread combine.
struct ThreadGroup {
  int extent, step;
};

template <int N>
struct ThreadGroups {
  ThreadGroup group[N > 0 ? N : 1];
  int count;
};

/// How a group combines: by shuffles inside one warp, by shuffles and one slot per warp and lane class, by shuffles
/// and one slot per (possibly partial) warp of the whole block, or by one slot per thread.
enum class Tier { lanes, warps, block, threads };

/// The tier of group (extent, step) in a block of `threads`.
CUTE_HOST_DEVICE constexpr Tier tier_of(ThreadGroup g, int threads) {
  const int span = g.extent * g.step;
  if (threads <= 32 || 32 % span == 0) return Tier::lanes;
  if (g.step < 32 && 32 % g.step == 0 && span % 32 == 0) return Tier::warps;
  if (g.step == 1 && g.extent == threads) return Tier::block;
  return Tier::threads;
}

/// Workspace slots of one kept element for that tier.
CUTE_HOST_DEVICE constexpr int slots_of(ThreadGroup g, int threads) {
  switch (tier_of(g, threads)) {
    case Tier::lanes: return 0;
    case Tier::warps: return threads / 32 * g.step;
    case Tier::block: return (threads + 31) / 32;
    default: return threads;
  }
}

/// Sharding facts of an operand; the primary template serves plain tensors.
template <class T>
struct Operand {
  static constexpr bool sharded = false;
};
template <class E, class GL, class SL>
struct Operand<ShardTensor<E, GL, SL>> {
  static constexpr bool sharded = true;
  using shard_layout = SL;
  using global_layout = GL;
  static constexpr bool in_registers = cute::is_rmem<E>::value;
};
template <class Engine, class L, class A, class M>
struct Operand<cute::Tensor<Engine, ShardLayout<L, A, M>>> {
  static constexpr bool sharded = true;
  using shard_layout = ShardLayout<L, A, M>;
  using global_layout = L;
  static constexpr bool in_registers = cute::is_rmem<cute::Tensor<Engine, L>>::value;
};

template <class Layout>
CUTE_HOST_DEVICE constexpr long long static_extent(int mode) {
  using Wrapped = decltype(cute::wrap(stdx::declval<Layout const&>().shape()));
  constexpr int rank = cute::tuple_size<Wrapped>::value;
  long long extent[rank] = {};
  cute::for_each(cute::make_int_sequence<rank>{}, [&](auto k) {
    extent[k] = core::static_or_minus_one<cute::tuple_element_t<decltype(k)::value, Wrapped>>();
  });
  return extent[mode];
}

/// Whether two layouts have the same flat shape as far as types tell: extents known at run time only count as equal.
template <class A, class B>
CUTE_HOST_DEVICE constexpr bool same_extents() {
  if (A::rank != B::rank) return false;
  for (int k = 0; k < A::rank; ++k) {
    const long long a = static_extent<A>(k), b = static_extent<B>(k);
    if (a >= 0 && b >= 0 && a != b) return false;
  }
  return true;
}

/// Canonical axis -> logical axis. Canonical axes factor the logical ones from left to right.
template <class GL, class SL>
struct AxisMap {
  static constexpr int canonical = SL::rank;
  static constexpr int logical = GL::rank;
  int axis[canonical];
  bool factors;

  CUTE_HOST_DEVICE constexpr AxisMap() : axis{}, factors(true) {
    if constexpr (core::may_equal<core::shape_of_t<GL>, core::shape_of_t<typename SL::layout_type>>()) {
      for (int k = 0; k < canonical; ++k) axis[k] = k;
    } else {
      int at = 0;
      long long product = 1;
      for (int k = 0; k < canonical; ++k) {
        const long long extent = static_extent<typename SL::layout_type>(k);
        pass_full(at, product);
        axis[k] = at;
        product = extent < 0 ? -1 : product * extent;
        factors = factors && product > 0 && static_extent<GL>(at) > 0 && static_extent<GL>(at) % product == 0;
      }
      pass_full(at, product);
      factors = factors && at + 1 == logical && product == static_extent<GL>(at);
    }
  }

 private:
  /// On to the next logical axis that the canonical axes so far leave room in.
  static CUTE_HOST_DEVICE constexpr void pass_full(int& at, long long& product) {
    while (at + 1 < logical && product == static_extent<GL>(at)) ++at, product = 1;
  }
};

/// Whether canonical axis K of a sharded source is reduced.
template <class Axes, class GL, class SL>
struct Reduced {
  static_assert(AxisMap<GL, SL>{}.factors,
                "ops::reduce: the canonical shape does not factor the logical one axis by axis, so logical axes have "
                "no counterpart; give static extents that factor, or bind the canonical layout as the global one");
  static CUTE_HOST_DEVICE constexpr bool axis(int k) { return Axes::contains(AxisMap<GL, SL>{}.axis[k]); }
};

/// Whether the values along mesh axis M are combined: it splits a reduced axis, or holds partials that dst does not.
template <class Red, class SL, class DstOperand, int M>
CUTE_HOST_DEVICE constexpr bool combines() {
  using Attr = typename core::ShardFacts<SL>::template attr<M>;
  if constexpr (core::split_axis<Attr>::is_split) {
    return Red::axis(core::split_axis<Attr>::axis);
  } else if constexpr (core::is_partial<Attr>) {
    if constexpr (DstOperand::sharded) {
      using DstAttrs = typename DstOperand::shard_layout::attrs_type;
      return !core::is_partial<cute::tuple_element_t<M, DstAttrs>>;
    } else {
      return true;
    }
  } else {
    return false;
  }
}

/// The cross-thread part of a reduction over a sharded source.
template <class Axes, class Src, class Dst>
struct ThreadPlan {
  using SL = typename Operand<Src>::shard_layout;
  using Red = Reduced<Axes, typename Operand<Src>::global_layout, SL>;
  using M = typename SL::mesh_type;
  static constexpr int axes = M::rank;

  static CUTE_HOST_DEVICE constexpr int level_of(TopologyScope scope) {
    int found = -1;
    for_each_level([&](int level, TopologyScope s) { found = s == scope ? level : found; });
    return found;
  }

  /// Threads of the block, as the mesh sees them; 1 for a mesh without a thread level.
  static CUTE_HOST_DEVICE constexpr int threads() {
    if constexpr (level_of(TopologyScope::thread) >= 0) {
      using Dim = decltype(program_dim<core::level_in<TopologyScope::thread, SL>>());
      static_assert(cute::is_static<Dim>::value, "ops::reduce: the number of threads in a block must be static");
      return int(Dim::value);
    } else {
      return 1;
    }
  }

  /// Groups that combine, by ascending step, neighbours merged.
  static CUTE_HOST_DEVICE constexpr ThreadGroups<axes> groups() { return collect(cute::make_seq<axes>{}); }

  /// Number of instances along combined mesh axes that hold partials (a mean divides by it).
  static CUTE_HOST_DEVICE constexpr int partial_count() { return partials(cute::make_seq<axes>{}); }

 private:
  template <class F>
  static CUTE_HOST_DEVICE constexpr void for_each_level(F const& f) {
    int level = 0;
    cute::for_each(M::topologies, [&](auto scope) { f(level++, scope); });
  }

  template <int Axis>
  static CUTE_HOST_DEVICE constexpr void add(ThreadGroups<axes>& out) {
    if constexpr (combines<Red, SL, Operand<Dst>, Axis>()) {
      constexpr auto all = M::axis_groups();
      constexpr int level = level_of(TopologyScope::thread);
      using Layout = decltype(stdx::declval<M const&>().mesh_layout);
      using Extent = decltype(cute::size<Axis>(stdx::declval<Layout const&>()));
      if constexpr (!cute::is_constant<1, Extent>::value) {
        constexpr bool in_block =
            level >= 0 && Axis >= all.group[level].first && Axis < all.group[level].first + all.group[level].count;
        static_assert(in_block,
                      "ops::reduce: a reduced axis crosses CTA boundaries; reduce inside the CTA into a partial result "
                      "and combine the partials after a grid barrier or in a second launch");
        constexpr auto shape = cute::take<all.group[level].first, all.group[level].first + all.group[level].count>(
            cute::wrap(Layout{}.shape()));
        constexpr auto stride = cute::take<all.group[level].first, all.group[level].first + all.group[level].count>(
            cute::wrap(Layout{}.stride()));
        static_assert(cute::is_static<decltype(shape)>::value && cute::is_static<decltype(stride)>::value,
                      "ops::reduce: the thread axes of the mesh must be static");
        constexpr int unit = int(core::level_unit(shape, stride));
        constexpr int at = Axis - all.group[level].first;
        static_assert(cute::is_integral<stdx::remove_cvref_t<decltype(cute::get<at>(stride))>>::value,
                      "ops::reduce: mesh axes must be flat");
        out.group[out.count++] = ThreadGroup{int(cute::get<at>(shape)), int(cute::get<at>(stride)) / unit};
      }
    }
  }

  template <int... Axis>
  static CUTE_HOST_DEVICE constexpr ThreadGroups<axes> collect(cute::seq<Axis...>) {
    ThreadGroups<axes> raw{};
    raw.count = 0;
    (add<Axis>(raw), ...);
    for (int i = 1; i < raw.count; ++i)
      for (int j = i; j > 0 && raw.group[j].step < raw.group[j - 1].step; --j) {
        const ThreadGroup swap = raw.group[j];
        raw.group[j] = raw.group[j - 1];
        raw.group[j - 1] = swap;
      }
    ThreadGroups<axes> out{};
    out.count = 0;
    for (int i = 0; i < raw.count; ++i) {
      if (out.count > 0 && out.group[out.count - 1].step * out.group[out.count - 1].extent == raw.group[i].step) {
        out.group[out.count - 1].extent *= raw.group[i].extent;
      } else {
        out.group[out.count++] = raw.group[i];
      }
    }
    return out;
  }

  template <int... Axis>
  static CUTE_HOST_DEVICE constexpr int partials(cute::seq<Axis...>) {
    int n = 1;
    ((n *= partial_extent<Axis>()), ...);
    return n;
  }
  template <int Axis>
  static CUTE_HOST_DEVICE constexpr int partial_extent() {
    using Attr = typename core::ShardFacts<SL>::template attr<Axis>;
    if constexpr (core::is_partial<Attr> && combines<Red, SL, Operand<Dst>, Axis>()) {
      return core::static_or_minus_one<decltype(cute::size<Axis>(stdx::declval<M const&>().mesh_layout))>();
    } else {
      return 1;
    }
  }
};

/// Whether top-level mode K of a plain source is reduced: `Reduced` for tensors without a mesh.
template <class Axes>
struct PlainReduced {
  static CUTE_HOST_DEVICE constexpr bool axis(int k) { return Axes::contains(k); }
};

}  // namespace reduce_impl
}  // namespace ops
}  // namespace tilefoundry
