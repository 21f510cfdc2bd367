/// \file attention_tiles.cuh
/// `ops::attention` by tiles of rows and keys, with what is done with every element; the tier follows from element
/// type, dims and chip.
#pragma once

#include <tilefoundry/runtime/cuda/dynamic_shared.cuh>
#include <tilefoundry/runtime/cuda/ops/attention_ring.cuh>
#include <tilefoundry/runtime/cuda/ops/attention_simt.cuh>
#include <tilefoundry/runtime/cuda/ops/attention_wgmma.cuh>
#include <tilefoundry/runtime/cuda/ops/sync.cuh>

namespace tilefoundry {
namespace ops {
namespace attention_tiles_impl {

/// Threads of a block whose tiles lie in shared memory that its launch gives it.
inline constexpr int ring_threads = 384;

/// The tier of operands of type T; `Plain`: as `AttentionTask` has it.
template <class T, int Dim, int Width, int Threads, bool Plain>
__device__ constexpr auto select_tier() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr bool has_mma = true;
#else
  constexpr bool has_mma = false;
#endif
  constexpr bool is_16bit = stdx::is_same_v<T, f16> || stdx::is_same_v<T, bf16>;
  constexpr bool fits = Dim % 16 == 0 && Width % 16 == 0 && Dim > 0 && Width > 0 && Dim <= 256 && Width <= 256;
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
  constexpr bool has_wgmma = true;
#else
  constexpr bool has_wgmma = false;
#endif
  constexpr bool in_chunks = (Dim == 64 || Dim == 128) && (Width == 64 || Width == 128);
  if constexpr (is_16bit && in_chunks && has_wgmma && Threads == ring_threads && Plain) {
    return AttentionRing<T, Dim, Width>{};
  } else if constexpr (is_16bit && in_chunks && has_wgmma && Threads == 128) {
    return AttentionWgmma<T, Dim, Width>{};
  } else if constexpr (is_16bit && fits && has_mma && (Threads <= 128 || (Threads == ring_threads && in_chunks))) {
    return AttentionMma<T, Dim, Width, Threads>{};
  } else {
    return AttentionSimt<T, Dim, Width, Threads>{};
  }
}
template <class Task, int Threads>
using tier_t = decltype(select_tier<typename Task::value_type, Task::dim, Task::width, Threads, Task::is_plain>());

/// Whether a tier shares the tiles of a launch out among its blocks by itself.
template <class Tier, class = void>
inline constexpr bool takes_turns = false;
template <class Tier>
inline constexpr bool takes_turns<Tier, stdx::void_t<decltype(Tier::in_turns)>> = true;

/// A weighted sum over its weights; a row that saw no key has none and gives zero.
template <class Sum>
__device__ Sum divided(Sum mixed, Sum total) {
  return total == Sum(0) ? Sum(0) : mixed / total;
}

/// Where partial results wait: for every part and row the weighted sums, what they were measured from, and their weight.
template <class Task, class Sum>
struct Partials {
  Sum* data;
  index_t rows;

  __device__ Partials(Task const& task, void* memory)
      : data(static_cast<Sum*>(memory)), rows(index_t(task.batch) * task.shared * task.rows()) {}
  __device__ Sum* at(int part, index_t row) const { return data + (part * rows + row) * (Task::width + 2); }
};

/// Join the parts of every element in order.
template <class Sum, class Task, class Out>
__device__ void join_parts(Task const& task, Partials<Task, Sum> const& partials, int threads, Out const& out) {
  const index_t stride = index_t(program_dim<TopologyScope::cta>()) * threads;
  index_t i = index_t(program_id<TopologyScope::cta>()) * threads + program_id<TopologyScope::thread>();
  for (; i < partials.rows * Task::width; i += stride) {
    const index_t row = i / Task::width;
    const int e = static_cast<int>(i % Task::width);
    Sum top = -stdx::numeric_limits<Sum>::infinity();
    for (int part = 0; part < Task::parts; ++part) {
      const Sum own = partials.at(part, row)[Task::width];
      top = own > top ? own : top;
    }
    const Sum base = base_of(top);
    Sum mixed = Sum(0), total = Sum(0);
    for (int part = 0; part < Task::parts; ++part) {
      Sum const* const held = partials.at(part, row);
      const Sum worth = exp2_op{}(held[Task::width] - base);
      mixed += held[e] * worth, total += held[Task::width + 1] * worth;
    }
    const int n = static_cast<int>(row % task.rows());
    const index_t above = row / task.rows();
    out(static_cast<int>(above / task.shared), static_cast<int>(above % task.shared), n, e, divided(mixed, total));
  }
}

/// The tiles one after the other, then what joins their parts.
template <class Tier, int Threads, class Task, class Out>
__device__ void attend_by_tiles(Task const& task, void* workspace, Out const& out, void* partial, unsigned* barrier) {
  using Sum = typename Tier::Sum;
  const int rows = task.rows(), tiles = (rows + Tier::rows - 1) / Tier::rows;
  const index_t items = index_t(task.batch) * task.shared * tiles * Task::parts;
  auto place = [&](int batch, int group, int n, int e, Sum value) {
    out(batch, group * (task.heads / task.shared) + n / task.queries, n % task.queries, e, value);
  };
  [[maybe_unused]] const Partials<Task, Sum> partials(task, partial);
  for (index_t item = program_id<TopologyScope::cta>(); item < items; item += program_dim<TopologyScope::cta>()) {
    const RowTile tile = tile_of<Tier::rows, Tier::keys>(task, item);
    Tier::run(task, tile, workspace, [&](int n, int e, Sum mixed, Sum top, Sum total) {
      if constexpr (Task::parts == 1) {
        place(tile.batch, tile.group, n, e, divided(mixed, total));
      } else {
        Sum* const held = partials.at(tile.part, (index_t(tile.batch) * task.shared + tile.group) * rows + n);
        held[e] = mixed;
        if (e == 0) held[Task::width] = top, held[Task::width + 1] = total;
      }
    });
  }
  if constexpr (Task::parts > 1) {
    sync<SyncKind::grid>(barrier);
    join_parts<Sum>(task, partials, Threads, place);
  }
}

}  // namespace attention_tiles_impl

/// Shared memory that `attention` of a `Task` needs in a block of `Threads`, at most 48 KiB but for blocks of 384, whose
/// launch must give it. A constant, the same in every thread.
template <class Task, int Threads>
__device__ constexpr int attention_workspace_bytes() {
  return attention_tiles_impl::tier_t<stdx::remove_cv_t<Task>, Threads>::bytes;
}

/// The same for a task of operands of type T in memory, all of whose keys count, in one part; any thread.
template <class T, int Dim, int Width, int Threads>
__device__ constexpr int attention_bytes() {
  return decltype(attention_tiles_impl::select_tier<T, Dim, Width, Threads, true>())::bytes;
}

/// softmax(mask(cap(q k^T * scale))) v over the keys that a query sees: `out(batch, head, query, e, value)` once for every
/// element, by the thread that holds it. Query s of S stands at position length - S + s; one that sees no key gives zeros.
///
/// All threads of all blocks call; the blocks share the tiles out among themselves, whatever their number. Sums are
/// float (double for double), in a fixed order: equal inputs give equal bits. `workspace`: `attention_workspace_bytes`
/// bytes of shared memory at a multiple of 1024, used between block barriers. Keys in several parts need `partial`, memory
/// of `parts * batch * heads * queries * (width + 2)` sums, and the counter pair `barrier` of a launch whose blocks are
/// all resident: they meet once. What `out` stores is visible to other blocks after a grid barrier or the end of the
/// kernel.
template <int Threads, class Task, class Out>
__device__ void attention(Task const& task, void* workspace, Out const& out, void* partial = nullptr,
                          unsigned* barrier = nullptr) {
  namespace impl = attention_tiles_impl;
  using Tier = impl::tier_t<Task, Threads>;
  if constexpr (impl::takes_turns<Tier>) {
    Tier::run(task, workspace, out);
  } else {
    impl::attend_by_tiles<Tier, Threads>(task, workspace, out, partial, barrier);
  }
}

}  // namespace ops
}  // namespace tilefoundry
