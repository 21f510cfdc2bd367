/// \file matmul_tma.cuh
/// The fast matmul tier of sm_90a: one warp fetches tiles through the copy engine, two warpgroups multiply.
#pragma once

#include <tilefoundry/runtime/cuda/ops/launch_order.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_epilogue.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_halves.cuh>
#include <tilefoundry/runtime/cuda/ops/matmul_wgmma.cuh>
#include <tilefoundry/runtime/cuda/ops/tensor_map.cuh>
#include <tilefoundry/runtime/cuda/ops/tma.cuh>

namespace tilefoundry {
namespace ops {
namespace matmul_impl {

/// Put before a kernel that calls `ops::matmul` in blocks of 288 threads and runs an even number of blocks: pairs of
/// blocks then share what they fetch. Without it every block fetches for itself.
#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define TILEFOUNDRY_PAIRED_BLOCKS __cluster_dims__(2, 1, 1)
#else
#define TILEFOUNDRY_PAIRED_BLOCKS
#endif

/// Maps of the operands of all blocks in flight.
template <class S>
__device__ map_places<2> operand_maps;

/// Geometry of the tier for tiles of 128 rows by `Columns`. `Halves`: the blocks of a pair take one tile together, each
/// half of its k.
template <int Columns, bool Halves = false>
struct TmaTile {
  static constexpr bool halves = Halves;
  static constexpr int bm = 128, bn = Columns, bk = 64;
  static constexpr int stage_bytes = (bm + bn) * bk * 2;
  static constexpr int stages = Columns == 256 ? 4 : 6;
};

/// S: the operands' 16-bit type. The block has `Threads` = 288 threads: warps 0-7 multiply, warp 8 fetches.
template <class S, int Threads>
struct TmaTier {
  static_assert(Threads == 288, "ops::matmul: the copy-engine tier runs in blocks of 288 threads");
  static constexpr int workers = 256, warps = 8, bm = 128, bk = 64;
  static constexpr int stages_bytes = TmaTile<256>::stages * TmaTile<256>::stage_bytes;
  static_assert(TmaTile<128>::stages * TmaTile<128>::stage_bytes <= stages_bytes,
                "ops::matmul: the workspace is sized for the wide tile, so the narrow one must need no more");
  /// The maps are built in memory of their own, then come the barriers.
  static constexpr int maps_at = stages_bytes, barriers_at = maps_at + 2 * 128;
  static constexpr int bytes = barriers_at + 128;
  static_assert(maps_at % 128 == 0 && bytes <= 227 * 1024, "ops::matmul: the tier's memory exceeds a block's");
  static constexpr int group_rows = 8;

  using Fallback = WgmmaTier<S, Threads>;
  static_assert(Fallback::bytes <= bytes, "ops::matmul: the fallback's tiles fit");

  /// Whether the copy engine can read the operand.
  template <int Skip, class View, class Op>
  static __device__ bool readable(View const& view, Op const& op) {
    if constexpr (!stdx::is_same_v<typename Op::value_type, S> || !(Op::k_contiguous || Op::row_contiguous)) {
      return false;
    } else {
      bool ok = op.allows_pieces() && op.rows > 0 && op.k > 0;
      if constexpr (Skip == 1) {
        if constexpr (cute::is_integral<stdx::remove_cvref_t<decltype(cute::shape<0>(view.layout()))>>::value) {
          ok = ok && static_cast<long long>(cute::stride<0>(view.layout())) % 8 == 0;
        } else {
          ok = false;  // several batch modes
        }
      }
      return ok;
    }
  }

  template <int Skip, class View, class Op>
  static __device__ tensor_map_spec spec_of(View const& view, Op const& op, int lines) {
    tensor_map_spec spec{};
    spec.base = op.data;
    const long long step = static_cast<long long>(Op::k_contiguous ? static_cast<long long>(op.row_stride)
                                                                   : static_cast<long long>(op.k_stride));
    spec.extent[0] = Op::k_contiguous ? op.k : op.rows;
    spec.extent[1] = Op::k_contiguous ? op.rows : op.k;
    spec.extent[2] = 1;
    spec.step_bytes[0] = step * 2;
    spec.step_bytes[1] = 16;
    if constexpr (Skip == 1) {
      if constexpr (cute::is_integral<stdx::remove_cvref_t<decltype(cute::shape<0>(view.layout()))>>::value) {
        const long long apart = static_cast<long long>(cute::stride<0>(view.layout()));
        if (apart != 0) {  // a repeated operand is one matrix
          spec.extent[2] = static_cast<int>(cute::size<0>(view.layout()));
          spec.step_bytes[1] = apart * 2;
        }
      }
    }
    if (spec.step_bytes[0] == 0) spec.step_bytes[0] = 16;  // one line, or the same line again
    spec.box_lines = Op::k_contiguous ? lines : bk;
    spec.is_bf16 = stdx::is_same_v<S, bf16>;
    return spec;
  }

  /// Fetch `Outer` rows by 64 k from (row0, k0); for every block in `blocks` where that is not 0.
  template <bool KMajor, int Outer>
  static __device__ void fetch(char* to, tensor_map const* map, mbarrier& arrived, int row0, int k0, int batch,
                               unsigned short blocks = 0) {
    constexpr int boxes = KMajor ? 1 : Outer / 64;
    CUTE_UNROLL
    for (int c = 0; c < boxes; ++c) {
      const int x = KMajor ? k0 : row0 + c * 64, y = KMajor ? row0 : k0;
      if (blocks == 0) {
        tma_load(to + c * 8192, map, arrived, x, y, batch);
      } else {
        tma_load_multicast(to + c * 8192, map, arrived, blocks, x, y, batch);
      }
    }
  }

  /// The calling block among those that work together: alone, or one of a cluster of two. Such a pair takes two tiles
  /// below each other and fetches half of the columns for both; or it takes one tile, and each block half of its k.
  struct Pair {
    unsigned blocks, rank;
    bool halves;

    static __device__ Pair mine(bool halves) {
      const unsigned n = cluster_blocks();
      return n == 2 ? Pair{2, cluster_rank(), halves} : Pair{1, 0, false};
    }
    __device__ int tiles() const { return halves ? 1 : static_cast<int>(blocks); }
    __device__ bool shares() const { return blocks == 2 && !halves; }
    /// The calling block's steps along k, of `all`.
    __device__ int first_step(int all) const { return halves && rank == 1 ? (all + 1) / 2 : 0; }
    __device__ int last_step(int all) const { return halves && rank == 0 ? (all + 1) / 2 : all; }
  };

  /// Call `body(batch, first_row, first_column)` on the tiles of the calling block. Tiles that run at the same time
  /// lie in groups of rows, so that both operands' tiles are read from L2 several times.
  template <int BN, class View, class Body>
  static __device__ void for_each_grouped(View const& d, Pair pair, Body const& body) {
    constexpr int skip = View::rank - 2;
    const long long m = cute::size<skip>(d.layout()), n = cute::size<skip + 1>(d.layout());
    const long long batches = skip == 1 ? static_cast<long long>(cute::size<0>(d.layout())) : 1;
    // In units of what the pair takes together.
    const int height = bm * pair.tiles(), own = pair.shares() ? static_cast<int>(pair.rank) * bm : 0;
    const int rows = static_cast<int>((m + height - 1) / height), columns = static_cast<int>((n + BN - 1) / BN);
    const long long in_matrix = static_cast<long long>(rows) * columns;
    const int block = program_id<core::level_in<TopologyScope::cta, View>>();
    const int blocks = program_dim<core::level_in<TopologyScope::cta, View>>();
    for (long long tile = block / static_cast<int>(pair.blocks); tile < in_matrix * batches;
         tile += blocks / static_cast<int>(pair.blocks)) {
      const int batch = static_cast<int>(tile / in_matrix);
      const long long place = tile - batch * in_matrix;
      const int group = static_cast<int>(place / (static_cast<long long>(group_rows) * columns));
      const int first = group * group_rows, deep = rows - first < group_rows ? rows - first : group_rows;
      const int inside = static_cast<int>(place - static_cast<long long>(first) * columns);
      body(batch, (first + inside % deep) * height + own, inside / deep * BN);
    }
  }

  /// What the copy engine reads of both operands.
  template <class Tile, int Skip, class A, class B>
  static __device__ void describe(A const& a, B const& b, tensor_map_spec (&specs)[2]) {
    specs[0] = spec_of<Skip>(a, operand_of<0, 1>(a, 0), bm);
    specs[1] = spec_of<Skip>(b, operand_of<1, 0>(b, 0), Tile::bn / 2);
  }

  template <class Tile, bool AK, bool BK, class A, class B, class D>
  static __device__ void produce(A const& a, B const& b, D const& d, char* smem, ring<Tile::stages> pipe,
                                 halves exchange, Pair pair, int place) {
    constexpr int BN = Tile::bn, skip = D::rank - 2, half_bytes = BN / 2 * bk * 2;
    auto const oa = operand_of<0, 1>(a, 0);
    tensor_map_spec specs[2];
    describe<Tile, skip>(a, b, specs);
    auto& places = operand_maps<S>;
    tensor_map const* const maps = places.maps[place];
    if (static_cast<int>(threadIdx.x) % 32 == 0) {
      unsigned position = 0, turn = 0;
      const int all = (oa.k + bk - 1) / bk, begin = pair.first_step(all), end = pair.last_step(all);
      for_each_grouped<BN>(d, pair, [&](int batch, int row0, int column0) {
        const int za = specs[0].extent[2] > 1 ? batch : 0, zb = specs[1].extent[2] > 1 ? batch : 0;
        if (pair.halves && turn > 0) exchange.wait(turn - 1);
        ++turn;
        for (int step = begin; step < end; ++step, ++position) {
          const int slot = pipe.slot(position);
          mbarrier& arrived = pipe.slots.full[slot];
          pipe.slots.empty[slot].wait(pipe.parity(position) ^ 1u);
          arrived.arrive_expect(Tile::stage_bytes);
          char *const to = smem + slot * Tile::stage_bytes, *const columns = to + bm * bk * 2;
          fetch<AK, bm>(to, &maps[0], arrived, row0, step * bk, za);
          if (pair.shares()) {
            const int half = static_cast<int>(pair.rank);
            fetch<BK, BN / 2>(columns + half * half_bytes, &maps[1], arrived, column0 + half * (BN / 2), step * bk, zb, 3);
          } else {
            fetch<BK, BN / 2>(columns, &maps[1], arrived, column0, step * bk, zb);
            fetch<BK, BN / 2>(columns + half_bytes, &maps[1], arrived, column0 + BN / 2, step * bk, zb);
          }
        }
      });
      // Every slot handed back: no copy is under way any more.
      for (unsigned left = 0; left < static_cast<unsigned>(Tile::stages); ++left, ++position)
        pipe.slots.empty[pipe.slot(position)].wait(pipe.parity(position) ^ 1u);
      places.release(place);
    }
  }

  /// Hand the sums of a warpgroup's 64 rows by BN columns to the epilogue, in runs of eight neighbouring columns. Of
  /// such a run the four lanes of a quad hold two sums each; of four runs each lane gets one.
  template <int BN, class Out, class Epilogue>
  static __device__ void finish(float const (&sum)[BN / 2], Out const& out, int row0, int column0, int rows,
                                int columns, Epilogue const& epilogue) {
    using Atom = atom::wgmma<S, BN>;
    const int thread = static_cast<int>(threadIdx.x) % 128;
    CUTE_UNROLL
    for (int s = 0; s < BN / 2; s += 16) {
      CUTE_UNROLL
      for (int below = 0; below < 4; below += 2) {
        float2 parts[4];
        CUTE_UNROLL
        for (int i = 0; i < 4; ++i) parts[i] = make_float2(sum[s + i * 4 + below], sum[s + i * 4 + below + 1]);
        float run[8];
        gather_run(parts, run);
        const int row = row0 + Atom::sum_row(thread, below), first = column0 + s * 2 + thread % 4 * 8;
        if (row < rows) finish_run<8>(epilogue, out, row, first, columns, run);
      }
    }
  }

  template <class Tile, bool AK, bool BK, class A, class B, class D, class Epilogue>
  static __device__ void consume(A const& a, B const& b, D const& d, char* smem, ring<Tile::stages> pipe,
                                 halves exchange, Pair pair, Epilogue const& epilogue) {
    constexpr int BN = Tile::bn;
    using Atom = atom::wgmma<S, BN, AK ? atom::Major::k : atom::Major::outer, BK ? atom::Major::k : atom::Major::outer>;
    auto const oa = operand_of<0, 1>(a, 0);
    auto const ob = operand_of<1, 0>(b, 0);
    const int thread = static_cast<int>(threadIdx.x), group = thread / 128;
    // One lane per block of the pair tells it that the warp is done with a slot.
    const unsigned lane = static_cast<unsigned>(thread % 32);
    auto release = [&](unsigned position) {
      mbarrier& empty = pipe.slots.empty[pipe.slot(position)];
      if (pair.shares()) {
        if (lane < 2) empty.arrive_at(lane);
      } else if (lane == 0) {
        empty.arrive();
      }
    };
    const int all = (oa.k + bk - 1) / bk, steps = pair.last_step(all) - pair.first_step(all);
    unsigned position = 0, turn = 0;
    for_each_grouped<BN>(d, pair, [&](int batch, int row0, int column0) {
      float sum[BN / 2] = {};
      for (int step = 0; step < steps; ++step, ++position) {
        pipe.wait(position);
        char const* const tile = smem + pipe.slot(position) * Tile::stage_bytes;
        const uint64_t da = atom::descriptor(tile + group * 8192, 8192), db = atom::descriptor(tile + bm * bk * 2, 8192);
        atom::wgmma_fence();
        CUTE_UNROLL
        for (int k = 0; k < bk / 16; ++k)
          Atom::fma(sum, atom::advance(da, k * Atom::a_step), atom::advance(db, k * Atom::b_step));
        atom::wgmma_commit();
        // The products of the step before are done once one batch at most is under way.
        atom::wgmma_wait<1>();
        if (step > 0) release(position - 1);
      }
      atom::wgmma_wait<0>();
      atom::wgmma_fence_sums(sum);
      if (steps > 0) release(position - 1);
      if constexpr (Tile::halves) {
        if (pair.halves) {
          const bool left = pair.rank == 0;
          float kept[BN / 4], given[BN / 4];
          CUTE_UNROLL
          for (int i = 0; i < BN / 4; ++i) {
            kept[i] = left ? sum[i] : sum[BN / 4 + i];
            given[i] = left ? sum[BN / 4 + i] : sum[i];
          }
          if (lane == 0) exchange.open(pair.rank ^ 1u);
          exchange.swap(kept, given, smem, pair.rank ^ 1u, thread, turn++);
          finish<BN / 2>(kept, result_of(d, batch), row0 + group * 64, column0 + (left ? 0 : BN / 2), oa.rows, ob.rows,
                         epilogue);
          return;
        }
      }
      finish<BN>(sum, result_of(d, batch), row0 + group * 64, column0, oa.rows, ob.rows, epilogue);
    });
  }

  template <class Tile, class A, class B, class D, class Epilogue>
  static __device__ void pipelined(A const& a, B const& b, D const& d, char* smem, Epilogue const& epilogue) {
    using OA = decltype(operand_of<0, 1>(a, 0));
    using OB = decltype(operand_of<1, 0>(b, 0));
    using Ring = ring<Tile::stages>;
    Ring pipe{*reinterpret_cast<typename Ring::storage*>(smem + barriers_at)};
    const halves exchange{*reinterpret_cast<halves::storage*>(smem + barriers_at + sizeof(typename Ring::storage))};
    static_assert(sizeof(typename Ring::storage) + sizeof(halves::storage) <= 128,
                  "ops::matmul: the barriers take more memory than is set aside for them");
    const int thread = static_cast<int>(threadIdx.x);
    const Pair pair = Pair::mine(Tile::halves);
    if (thread == 0) {
      pipe.init(pair.shares() ? warps * 2 : warps);
      exchange.init(warps);
      barrier_init_fence();
    }
    cluster_arrive();
    int place = 0;
    if (thread >= workers) {
      tensor_map_spec specs[2];
      describe<Tile, D::rank - 2>(a, b, specs);
      place = make_tensor_maps(operand_maps<S>, reinterpret_cast<tensor_map*>(smem + maps_at), specs);
    }
    cluster_wait();  // nobody arrives at a barrier, or fetches into a block, that is not ready
    await_earlier_launches();
    if (thread < workers) {
      consume<Tile, OA::k_contiguous, OB::k_contiguous>(a, b, d, smem, pipe, exchange, pair, epilogue);
    } else {
      produce<Tile, OA::k_contiguous, OB::k_contiguous>(a, b, d, smem, pipe, exchange, pair, place);
    }
    __syncwarp();
    cluster_barrier();  // the other block has made its last arrival here
    if (thread == 0) pipe.retire(), exchange.retire();
    __syncthreads();
  }

  template <class A, class B, class D, class Epilogue>
  static __device__ void run(A const& a, B const& b, D const& d, void* workspace, Epilogue const& epilogue) {
    constexpr int skip = D::rank - 2;
    auto const oa = operand_of<0, 1>(a, 0);
    auto const ob = operand_of<1, 0>(b, 0);
    using OA = stdx::remove_cvref_t<decltype(oa)>;
    using OB = stdx::remove_cvref_t<decltype(ob)>;
    constexpr bool may = (OA::k_contiguous || OA::row_contiguous) && (OB::k_contiguous || OB::row_contiguous) &&
                         stdx::is_same_v<typename OA::value_type, S> && stdx::is_same_v<typename OB::value_type, S>;
    if constexpr (may) {
      if (readable<skip>(a, oa) && readable<skip>(b, ob)) {
        pipelined<decltype(tile_for<A, D>())>(a, b, d, static_cast<char*>(workspace), epilogue);
        return;
      }
    }
    await_earlier_launches();
    Fallback::run(a, b, d, workspace, epilogue);
  }

  /// The tile of a call. Wide tiles feed the tensor cores better, narrow ones keep all multiprocessors at work where the
  /// result is small and its extents are static; where k is long besides, pairs take wide tiles by halves of k.
  template <class A, class D>
  static __device__ constexpr auto tile_for() {
    constexpr int skip = D::rank - 2;
    using M = decltype(cute::size<skip>(stdx::declval<typename D::layout_type>()));
    using N = decltype(cute::size<skip + 1>(stdx::declval<typename D::layout_type>()));
    using K = decltype(cute::size<skip + 1>(stdx::declval<typename A::layout_type>()));
    if constexpr (cute::is_static<M>::value && cute::is_static<N>::value) {
      constexpr long long rows = (M::value + bm - 1) / bm;
      constexpr long long wide = rows * ((N::value + 255) / 256), narrow = rows * ((N::value + 127) / 128);
      // In hundredths of a wide tile's time; bringing two halves together takes as long as some 300 of k.
      constexpr long long wide_time = rounds(wide) * 100, narrow_time = rounds(narrow) * 58;
      constexpr long long halves_time = rounds(2 * wide) * (50 + 30000 / static_extent<K>());
      if constexpr (halves_time < wide_time && halves_time < narrow_time) {
        return TmaTile<256, true>{};
      } else if constexpr (wide_time <= narrow_time) {
        return TmaTile<256>{};
      } else {
        return TmaTile<128>{};
      }
    } else {
      return TmaTile<256>{};
    }
  }
  /// How many times all multiprocessors take a tile.
  static __device__ constexpr long long rounds(long long tiles) { return (tiles + 131) / 132; }
  /// An extent where it is static and not 0, else 1.
  template <class Extent>
  static __device__ constexpr long long static_extent() {
    if constexpr (cute::is_static<Extent>::value) {
      return Extent::value > 1 ? Extent::value : 1;
    } else {
      return 1;
    }
  }
};

}  // namespace matmul_impl
}  // namespace ops
}  // namespace tilefoundry
