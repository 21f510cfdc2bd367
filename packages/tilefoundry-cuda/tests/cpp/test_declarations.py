"""Every declaration of the runtime contract exists under its name with its template signature.

One kernel spells each out with explicit template arguments and types; compiling it for both architectures is the
check. The umbrella is included as generated code includes it.
"""

from __future__ import annotations

import pytest

SOURCE = """
#include <tilefoundry/runtime.h>

namespace tilefoundry {
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {
  return cute::Shape<cute::Int<64>>{};
}
}  // namespace tilefoundry

namespace tf = tilefoundry;
using tf::TopologyScope;
using cute::Int;

// A fixed enumeration with its sentinel last.
static_assert(static_cast<int>(TopologyScope::cta) == 0 && static_cast<int>(TopologyScope::thread) == 1 &&
              static_cast<int>(TopologyScope::scope_count) == 2);

// Aggregates with these members, in this order.
using MeshLayout = cute::Layout<cute::Shape<Int<64>>>;
using Mesh = tf::Mesh<MeshLayout, TopologyScope::thread>;
using Layout = cute::Layout<cute::Shape<Int<64>, Int<4>>, cute::Stride<Int<4>, Int<1>>>;
using Attrs = cute::tuple<tf::shard::S<0>>;
using SL = tf::ShardLayout<Layout, Attrs, Mesh>;

extern "C" __global__ void declarations(float* p, unsigned int* bar, unsigned long long* out) {
  // Topology: static where specialised, the launch's extent elsewhere, ids always at run time.
  static_assert(noexcept(tf::program_shape<TopologyScope::cta>()) && noexcept(tf::program_dim<TopologyScope::cta>()) &&
                noexcept(tf::program_id<TopologyScope::thread>()));
  static_assert(decltype(tf::program_dim<TopologyScope::thread>())::value == 64);
  static_assert(!cute::is_static<decltype(tf::program_dim<TopologyScope::cta>())>::value);
  auto shape = tf::program_shape<TopologyScope::cta>();
  int id = tf::program_id<TopologyScope::cta>() + int(cute::get<0>(shape)) + tf::program_dim<TopologyScope::cta>();

  Mesh mesh{MeshLayout{}};
  static_assert(cute::tuple_size<cute::remove_cvref_t<decltype(Mesh::topologies)>>::value == 1);
  static_assert(cute::get<0>(Mesh::topologies) == TopologyScope::thread);
  auto coordinate = mesh.local_index();
  static_assert(noexcept(mesh.local_index()));
  static_assert(cute::rank(decltype(coordinate){}) == 1);

  SL sl{Layout{}, Attrs{}, mesh};
  static_assert(SL::rank == 2);
  tf::shard::B broadcast;
  tf::shard::P<tf::ops::sum_op> partial;
  tf::shard::Dynamic dynamic;
  (void)broadcast, (void)partial, (void)dynamic, (void)sl.layout, (void)sl.attrs, (void)sl.mesh;

  // Storage categories: gmem, smem, registers.
  auto gmem = cute::make_tensor(cute::make_gmem_ptr(p), Layout{});
  __shared__ float memory[256];
  auto smem = cute::make_tensor(cute::make_smem_ptr(memory), Layout{});
  auto rmem = cute::make_tensor<float>(Int<4>{});
  static_assert(cute::is_gmem<decltype(gmem)>::value && cute::is_smem<decltype(smem)>::value &&
                cute::is_rmem<decltype(rmem)>::value);

  using Engine = decltype(gmem);
  tf::ShardTensor<Engine, Layout, SL> sharded = tf::make_shard_tensor<Engine, Layout, SL>(gmem, Layout{}, sl);
  using ST = decltype(sharded);
  static_assert(cute::is_same<ST::engine_type, Engine>::value && cute::is_same<ST::global_layout_type, Layout>::value &&
                cute::is_same<ST::shard_layout_type, SL>::value);
  static_assert(cute::is_same<decltype(sharded.data()), float*>::value);
  const ST& constant = sharded;
  static_assert(cute::is_same<decltype(constant.data()), float*>::value);
  (void)sharded.engine, (void)sharded.shard_layout;

  auto own = tf::local<Engine, Layout, SL>(constant);
  static_assert(noexcept(tf::local(constant)));
  static_assert(cute::is_static<decltype(own.layout())>::value && decltype(cute::size(own))::value == 4);
  static_assert(cute::is_gmem<decltype(own)>::value);
  auto distributed = cute::make_tensor(cute::make_gmem_ptr(p), sl);  // cute::Tensor<Engine, ShardLayout>
  auto part = tf::shard_partition<decltype(distributed)>(distributed);
  static_assert(cute::is_same<decltype(part.layout()), decltype(own.layout())>::value);

  // Both copies, by their template arguments, and CuTe's own copy and fill.
  tf::copy<Engine, Layout, SL, decltype(rmem)>(constant, rmem);
  tf::copy<decltype(rmem), Engine, Layout, SL>(rmem, sharded);
  cute::copy(own, rmem);
  cute::fill(rmem, 1.0f);

  tf::ops::sync<tf::ops::SyncKind::cta>();
  tf::ops::sync<tf::ops::SyncKind::warp>();
  tf::ops::sync<tf::ops::SyncKind::named, 0, 64, 0u, 1>(nullptr);
  tf::ops::sync<tf::ops::SyncKind::lanes, 0, 0, 0xffu, 0>();
  tf::ops::sync<tf::ops::SyncKind::grid>(bar);

  auto one = cute::make_tensor<float>(Int<1>{});
  using Axes = tf::ops::axes<0, 1>;
  constexpr int bytes = tf::ops::reduce_workspace_bytes<tf::ops::sum_op, Axes, ST, decltype(one)>();
  static_assert(bytes == 2 * sizeof(float));
  __shared__ alignas(16) unsigned char workspace[bytes];
  tf::ops::reduce<tf::ops::sum_op, Axes, ST, decltype(one), unsigned char (&)[bytes]>(sharded, one, workspace);
  tf::ops::reduce<tf::ops::mean_op, Axes>(sharded, one, workspace);
  tf::ops::reduce<tf::ops::max_op, Axes>(sharded, one, workspace);
  tf::ops::reduce<tf::ops::min_op, Axes>(sharded, one, workspace);
  tf::ops::reduce<tf::ops::absmax_op, Axes>(sharded, one, workspace);
  tf::ops::reduce<tf::ops::sum_op, tf::ops::axes<0>, decltype(rmem), decltype(one), tf::ops::no_workspace>(rmem, one);

  auto slot = cute::make_tensor(cute::make_smem_ptr(memory + 4 * threadIdx.x), own.layout());
  tf::ops::copy_async<decltype(own), decltype(slot)>(own, slot);
  tf::ops::cp_async_commit();

  // As functions of exactly these types.
  using Out = decltype(rmem);
  using One = decltype(one);
  using Slot = decltype(slot);
  using Own = decltype(own);
  ST (*make)(Engine const&, Layout, SL) = &tf::make_shard_tensor<Engine, Layout, SL>;
  void (*from_shard)(ST const&, Out&) = &tf::copy<Engine, Layout, SL, Out>;
  void (*to_shard)(Out const&, ST&) = &tf::copy<Out, Engine, Layout, SL>;
  void (*meet)(unsigned int*) = &tf::ops::sync<tf::ops::SyncKind::named, 0, 64, 0u, 1>;
  void (*stage)(Own const&, Slot&) = &tf::ops::copy_async<Own, Slot>;
  using Workspace = unsigned char (&)[bytes];
  void (*combine)(ST const&, One&, Workspace&&) = &tf::ops::reduce<tf::ops::sum_op, Axes, ST, One, Workspace>;
  using First = tf::ops::axes<0>;
  void (*fold)(Out const&, One&, tf::ops::no_workspace&&) = &tf::ops::reduce<tf::ops::sum_op, First, Out, One>;
  (void)make, (void)from_shard, (void)to_shard, (void)meet, (void)stage, (void)combine, (void)fold;
  tf::ops::cp_async_wait<0>();
  out[0] = id + one(0);
}
"""


@pytest.mark.spec("cpp.declarations")
@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_90a"])
def test_every_declaration(arch: str, nvrtc):
    """On a chip before sm_80 the plain paths stand in: copies are synchronous, products scalar."""
    built = nvrtc(SOURCE, arch, "-DTILEFOUNDRY_TARGET_CUDA")
    assert built.ok, built.log


UNARY = """neg abs logical_not rsqrt sqrt exp exp2 log log2 square ceil floor round sin cos erf relu sigmoid silu
tanh gelu gelu_tanh softplus identity"""
BINARY = """add sub mul div floor_div mod minimum maximum cmp_eq cmp_ne cmp_lt cmp_le cmp_gt cmp_ge logical_and
logical_or"""
REDUCE = "sum mean max min absmax"
DTYPES = "f32 f64 i8 u8 i16 i32 i64 bool f16 bf16 fp8e4m3 fp8e5m2 f8e8m0 f4e2m1"


@pytest.mark.spec("cpp.vocabulary")
def test_both_targets_have_one_vocabulary(nvrtc, cpu_gxx):
    """Tags and element types by the same names on the CPU and on CUDA."""
    names = [f"ops::{n}_op" for n in f"{UNARY} {BINARY} {REDUCE}".split()]
    names += ["ops::clamp_op<float>", *DTYPES.split()]
    uses = "using namespace tilefoundry;\n" + "\n".join(f"using use{i} = {n};" for i, n in enumerate(names))
    host = cpu_gxx(f"#include <tilefoundry/runtime.h>\n{uses}\nint main() {{}}\n", "-O0")
    assert host.ok, host.log
    kernel = 'extern "C" __global__ void kernel() {}\n'
    device = nvrtc(
        f"#include <tilefoundry/runtime.h>\n{uses}\n{kernel}", "sm_80", "-DTILEFOUNDRY_TARGET_CUDA"
    )
    assert device.ok, device.log


FACTORED = """
#include <tilefoundry/runtime.h>
namespace tf = tilefoundry;
template <int... N> using Flat = cute::Layout<cute::tuple<cute::Int<N>...>>;
using Mesh = tf::Mesh<Flat<1>, tf::TopologyScope::thread>;
template <class Canonical> using SL = tf::ShardLayout<Canonical, cute::tuple<tf::shard::B>, Mesh>;
template <class Logical, class Canonical, int... Axis>
constexpr bool maps() {
  constexpr tf::ops::reduce_impl::AxisMap<Logical, SL<Canonical>> map{};
  constexpr int want[] = {Axis...};
  for (int k = 0; k < int(sizeof...(Axis)); ++k)
    if (map.axis[k] != want[k]) return false;
  return map.factors;
}
template <class Logical, class Canonical>
constexpr bool refused() { return !tf::ops::reduce_impl::AxisMap<Logical, SL<Canonical>>{}.factors; }
static_assert(maps<Flat<12, 5>, Flat<12, 5>, 0, 1>());
static_assert(maps<Flat<2, 1536>, Flat<2, 4, 3, 32, 4>, 0, 1, 1, 1, 1>());
// As many axes on both sides says nothing about which factors which.
static_assert(maps<Flat<12, 1>, Flat<3, 4>, 0, 0>());
static_assert(maps<Flat<1, 12>, Flat<3, 4>, 1, 1>());
static_assert(maps<Flat<6, 4, 1>, Flat<2, 3, 4>, 0, 0, 1>());
static_assert(refused<Flat<4, 6>, Flat<6, 4>>() && refused<Flat<2, 12>, Flat<6, 4>>());
// Neither may hold more than the other.
static_assert(refused<Flat<3, 4>, Flat<3>>() && refused<Flat<4, 4>, Flat<4, 2>>() && refused<Flat<3>, Flat<3, 4>>());
// Extents known at run time only stand for equal ones where the ranks agree.
using Dynamic = cute::Layout<cute::tuple<int, cute::Int<4>>>;
static_assert(maps<Dynamic, Dynamic, 0, 1>() && maps<Flat<7, 4>, Dynamic, 0, 1>());
static_assert(refused<Flat<7, 2, 2>, Dynamic>() && refused<Flat<7, 2>, Dynamic>());
extern "C" __global__ void kernel() {}
"""


def test_canonical_axes_belong_to_logical_ones(nvrtc):
    """Oracle: factorings from left to right, worked out by hand."""
    built = nvrtc(FACTORED, "sm_80", "-DTILEFOUNDRY_TARGET_CUDA", "-DTILEFOUNDRY_USE_REDUCE")
    assert built.ok, built.log
