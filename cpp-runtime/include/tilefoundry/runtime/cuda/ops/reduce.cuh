/// \file reduce.cuh
/// `ops::reduce`: the one entry of the reduction family.
#pragma once

#include <tilefoundry/runtime/cuda/ops/reduce_tags.cuh>
#include <tilefoundry/runtime/cuda/ops/reduce_threads.cuh>

namespace tilefoundry {
namespace ops {

/// No workspace: the reduction stays inside a warp.
struct no_workspace {};

namespace reduce_impl {

/// Plan of one call: reduced modes, kept elements per thread, groups and workspace.
template <class Axes, class Src, class Dst, bool Sharded = Operand<Src>::sharded>
struct Plan {
  using Red = PlainReduced<Axes>;
  static constexpr int group_count = 0;
  static constexpr int slots = 0;
  static constexpr int partial_count = 1;
  static constexpr int threads = 1;
  static __device__ constexpr ThreadGroup group(int) { return ThreadGroup{1, 1}; }
};
template <class Axes, class Src, class Dst>
struct Plan<Axes, Src, Dst, true> {
  using Threads = ThreadPlan<Axes, Src, Dst>;
  using Red = typename Threads::Red;
  static constexpr int group_count = Threads::groups().count;
  static constexpr int partial_count = Threads::partial_count();
  static constexpr int threads = Threads::threads();
  static __device__ constexpr ThreadGroup group(int i) { return Threads::groups().group[i]; }
  static __device__ constexpr int most_slots() {
    int most = 0;
    for (int i = 0; i < group_count; ++i) {
      const int n = slots_of(group(i), threads);
      most = n > most ? n : most;
    }
    return most;
  }
  static constexpr int slots = most_slots();
};

template <class T>
using view_t = decltype(core::plain_view(stdx::declval<T&>()));

/// Local modes of `Layout` that are (`Which`) or are not reduced, as one layout.
template <class Red, bool Which, class Layout, int... K>
__device__ constexpr auto select_modes(Layout const& layout, cute::seq<K...>) {
  auto pick = [](auto k, auto const& modes) {
    if constexpr (Red::axis(decltype(k)::value) == Which) {
      return cute::make_tuple(cute::get<decltype(k)::value>(modes));
    } else {
      return cute::tuple<>{};
    }
  };
  auto const shape = cute::tuple_cat(pick(cute::Int<K>{}, cute::wrap(layout.shape()))...);
  auto const stride = cute::tuple_cat(pick(cute::Int<K>{}, cute::wrap(layout.stride()))...);
  if constexpr (cute::tuple_size<stdx::remove_cvref_t<decltype(shape)>>::value == 0) {
    return cute::make_layout(cute::Int<1>{}, cute::Int<0>{});
  } else {
    return cute::make_layout(shape, stride);
  }
}
template <class Red, bool Which, class Layout>
__device__ constexpr auto select_modes(Layout const& layout) {
  return select_modes<Red, Which>(layout, cute::make_seq<Layout::rank>{});
}

/// Elements that each thread keeps.
template <class P, class Src>
__device__ constexpr int kept_elements() {
  using Kept = decltype(select_modes<typename P::Red, false>(stdx::declval<view_t<Src const>>().layout()));
  using Size = decltype(cute::size(stdx::declval<Kept>()));
  static_assert(cute::is_static<Size>::value,
                "ops::reduce: the extents that a thread keeps must be static (they live in registers)");
  return Size::value;
}

/// Number of elements that one result stands for.
template <class P, class Src, class View>
__device__ auto reduced_count(Src const& src, View const& view) {
  if constexpr (is_shard_tensor<Src>::value) {
    return cute::size(select_modes<typename P::Red, true>(src.shard_layout.layout)) * P::partial_count;
  } else if constexpr (Operand<Src>::sharded) {
    return cute::size(select_modes<typename P::Red, true>(src.layout().layout)) * P::partial_count;
  } else {
    return cute::size(select_modes<typename P::Red, true>(view.layout()));
  }
}

/// The workspace as values of A, its size checked where its type tells it.
template <class A, int Needed, class Ws>
__device__ A* workspace_of(Ws& ws) {
  using Bare = stdx::remove_cvref_t<Ws>;
  if constexpr (stdx::is_same_v<Bare, no_workspace>) {
    static_assert(Needed == 0,
                  "ops::reduce: this reduction crosses warps and needs a shared-memory workspace of "
                  "reduce_workspace_bytes<Op, Axes, Src, Dst>() bytes");
    return nullptr;
  } else if constexpr (stdx::is_array_v<Bare>) {
    static_assert(sizeof(Bare) >= Needed, "ops::reduce: the workspace is smaller than reduce_workspace_bytes");
    return reinterpret_cast<A*>(&ws[0]);
  } else if constexpr (stdx::is_pointer_v<Bare>) {
    return reinterpret_cast<A*>(ws);
  } else {
    if constexpr (cute::is_static<typename Bare::layout_type>::value)
      static_assert(cute::cosize_v<typename Bare::layout_type> * sizeof(typename Bare::value_type) >= Needed,
                    "ops::reduce: the workspace is smaller than reduce_workspace_bytes");
    return reinterpret_cast<A*>(cute::raw_pointer_cast(ws.data()));
  }
}

/// A thread's own share: fold the reduced local modes, one register value per kept element.
template <class Op, class P, class View, class A, int Kept>
__device__ void fold(View const& view, A (&value)[Kept]) {
  using In = stdx::remove_cv_t<typename View::value_type>;
  auto const kept = select_modes<typename P::Red, false>(view.layout());
  auto const reduced = select_modes<typename P::Red, true>(view.layout());
  auto const count = cute::size(reduced);
  auto const data = core::raw(view);
  CUTE_UNROLL
  for (int k = 0; k < Kept; ++k) {
    value[k] = Op::template identity<A>();
    CUTE_UNROLL
    for (int r = 0; r < count; ++r)
      value[k] = Op::template join<A>(value[k], Op::template map<A>(convert<A>(In(data[kept(k) + reduced(r)]))));
  }
}

template <class Op, class P, class A, int Kept, int... G>
__device__ void combine(A (&value)[Kept], A* workspace, cute::seq<G...>) {
  (combine_group<Op, P::group(G).extent, P::group(G).step, P::threads>(value, workspace), ...);
}

/// Whether the calling thread writes: all into registers or plain views, the first of each group into shared ones.
template <class P, class Dst, int... G>
__device__ bool writes_result(cute::seq<G...>) {
  if constexpr (Operand<Dst>::sharded && sizeof...(G) > 0) {
    if constexpr (!Operand<Dst>::in_registers) {
      const int thread = program_id<TopologyScope::thread>();
      return ((thread / P::group(G).step % P::group(G).extent == 0) && ...);
    }
  }
  return true;
}

template <class Op, class D, class A>
__device__ D finish(A value, long long count) {
  if constexpr (stdx::is_same_v<Op, mean_op>) {
    static_assert(is_real_v<D>, "ops::reduce: the mean of integers is not an integer; give a floating-point dst");
    using M = stdx::conditional_t<stdx::is_same_v<A, double>, double, float>;
    return convert<D>(static_cast<M>(value) / static_cast<M>(count));
  } else {
    return convert<D>(value);
  }
}

}  // namespace reduce_impl

/// Bytes of shared memory that `reduce` with these operands needs as its workspace, 16-byte aligned; 0 where it
/// stays inside a warp. The one source of this number, for generated code too.
template <class Op, class Axes, class Src, class Dst>
__device__ constexpr int reduce_workspace_bytes() {
  using S = stdx::remove_cv_t<Src>;
  using P = reduce_impl::Plan<Axes, S, stdx::remove_cv_t<Dst>>;
  using A = accumulate_t<stdx::remove_cv_t<typename reduce_impl::view_t<S const>::value_type>>;
  if constexpr (P::slots == 0) {
    return 0;
  } else {
    return P::slots * reduce_impl::kept_elements<P, S>() * int(sizeof(A));
  }
}

/// dst = Op over the logical axes `Axes` of src.
///
/// Plain operands: each thread folds its own. Sharded operands: split reduced axes (and partials that dst does not
/// keep) are combined between threads, and every thread of the block must call. The result is valid in every thread
/// that calls, with equal bits; into sharded gmem or smem the first thread of each group writes. src is only read.
/// Workspace: `reduce_workspace_bytes<...>()` bytes of shared memory where warps combine, with block barriers before
/// and after its use, else `no_workspace`. Reals accumulate in float (double for double), integers in 64 bits.
template <class Op, class Axes, class Src, class Dst, class Ws = no_workspace>
__device__ void reduce(Src const& src, Dst& dst, Ws&& ws = {}) {
  using S = stdx::remove_cv_t<Src>;
  using T = stdx::remove_cv_t<Dst>;
  using P = reduce_impl::Plan<Axes, S, T>;
  auto const s = ::tilefoundry::detail::plain_view(src);
  auto const d = ::tilefoundry::detail::plain_view(dst);
  using A = accumulate_t<stdx::remove_cv_t<typename decltype(s)::value_type>>;
  using D = typename decltype(d)::value_type;
  constexpr int kept = reduce_impl::kept_elements<P, S>();
  static_assert(!cute::is_static<decltype(cute::size(d))>::value || int(decltype(cute::size(d.layout()))::value) == kept,
                "ops::reduce: dst must hold one element for each that src keeps in a thread");
  A value[kept];
  reduce_impl::fold<Op, P>(s, value);
  A* const workspace = reduce_impl::workspace_of<A, reduce_workspace_bytes<Op, Axes, S, T>()>(ws);
  reduce_impl::combine<Op, P>(value, workspace, cute::make_seq<P::group_count>{});
  if (!reduce_impl::writes_result<P, T>(cute::make_seq<P::group_count>{})) return;
  const long long count = reduce_impl::reduced_count<P>(src, s);
  CUTE_UNROLL
  for (int k = 0; k < kept; ++k)
    const_cast<D*>(::tilefoundry::detail::raw(d))[d.layout()(k)] = reduce_impl::finish<Op, D>(value[k], count);
}

}  // namespace ops
}  // namespace tilefoundry
