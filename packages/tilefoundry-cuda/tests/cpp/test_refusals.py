"""What must not compile does not, and the error says why: the sentence is the oracle."""

from __future__ import annotations

import pytest

UMBRELLA = "#include <tilefoundry/runtime.h>\nint main() {}\n"

PRELUDE = """
#include <cute/layout.hpp>
#include <tilefoundry/runtime/cuda/topology.cuh>
namespace tilefoundry {
template <> constexpr auto program_shape<TopologyScope::cta>() noexcept { return cute::Shape<cute::Int<4>>{}; }
template <> constexpr auto program_shape<TopologyScope::thread>() noexcept { return cute::Shape<cute::Int<32>>{}; }
template <> auto program_id<TopologyScope::cta>() noexcept { return 0; }
template <> auto program_id<TopologyScope::thread>() noexcept { return 0; }
}
#include <tilefoundry/runtime/cuda/copy.cuh>
using namespace tilefoundry;
template <int... N> using Ints = cute::tuple<cute::Int<N>...>;
float storage[4096];
template <class Shape, class Attrs>
auto sharded(Shape shape, Attrs attrs) {
  auto grid = cute::make_layout(Ints<4, 32>{}, cute::LayoutRight{});
  auto mesh = make_mesh<TopologyScope::cta, TopologyScope::thread>(grid);
  auto layout = cute::make_layout(shape, cute::LayoutRight{});
  auto tensor = cute::make_tensor(cute::make_gmem_ptr(storage), layout);
  return make_shard_tensor(tensor, layout, make_shard_layout(layout, attrs, mesh));
}
"""

REFUSED = {
    "raw pointer": (
        "make_shard_tensor(&storage[0], cute::Layout<cute::Int<4>>{}, sharded(Ints<4, 32>{}, "
        "cute::tuple<shard::S<0>, shard::S<1>>{}).shard_layout);",
        "a raw pointer has lost its memory space",
    ),
    "no shard layout": (
        "cute::Layout<cute::Int<4>> l; make_shard_tensor(cute::make_tensor(&storage[0], l), 0, l);",
        "the third argument must be a ShardLayout",
    ),
    "dynamic attribute": (
        "auto t = sharded(Ints<4, 32>{}, cute::tuple<shard::S<0>, shard::Dynamic>{}); local(t);",
        "a Dynamic shard attribute must be resolved",
    ),
    "extent differs from the mesh": (
        "auto t = sharded(Ints<4, 16>{}, cute::tuple<shard::S<0>, shard::S<1>>{}); local(t);",
        "a split canonical extent must equal the extent of the mesh axis",
    ),
    "one axis split twice": (
        "auto t = sharded(Ints<4, 32>{}, cute::tuple<shard::S<1>, shard::S<1>>{}); local(t);",
        "two mesh axes split one canonical axis",
    ),
    "axis outside the shape": (
        "auto t = sharded(Ints<4, 32>{}, cute::tuple<shard::S<0>, shard::S<2>>{}); local(t);",
        "S<Axis> is outside the canonical shape",
    ),
    "attribute missing": (
        "auto t = sharded(Ints<4, 32>{}, cute::tuple<shard::S<0>>{}); local(t);",
        "attrs must name one attribute per mesh axis",
    ),
    "plain tensor": (
        "shard_partition(cute::make_tensor(&storage[0], cute::Layout<cute::Int<4>>{}));",
        "the tensor's layout must be a ShardLayout",
    ),
    "sentinel level": ("program_id<TopologyScope::scope_count>();", "scope_count is a sentinel"),
    "registers of a temporary": (
        "auto t = sharded(Ints<4, 32>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "local(make_shard_tensor(cute::make_tensor<float>(cute::Int<1>{}), 0, t.shard_layout));",
        "name the ShardTensor first",
    ),
    "copy to another type": (
        "auto t = sharded(Ints<4, 32, 2>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "auto d = cute::make_tensor<double>(cute::Int<2>{}); tilefoundry::copy(t, d);",
        "different element types",
    ),
    "copy of another size": (
        "auto t = sharded(Ints<4, 32, 2>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "auto d = cute::make_tensor<float>(cute::Int<3>{}); tilefoundry::copy(t, d);",
        "either the instance's part or the whole value",
    ),
    "copy between ownerships": (
        "auto t = sharded(Ints<4, 32, 2>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "auto u = sharded(Ints<4, 32, 2>{}, cute::tuple<shard::S<0>, shard::B>{}); tilefoundry::copy(t, u);",
        "copy through a plain tensor with a barrier",
    ),
    "copy between meshes that number instances differently": (
        "auto t = sharded(Ints<4, 32, 2>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "auto part = [&](auto step) {"
        " auto grid = cute::make_layout(Ints<4, 2, 16>{}, step);"
        " auto mesh = make_mesh<TopologyScope::cta, TopologyScope::thread>(grid);"
        " auto layout = cute::make_layout(Ints<4, 2, 16, 2>{}, cute::LayoutRight{});"
        " auto attrs = cute::tuple<shard::S<0>, shard::S<1>, shard::S<2>>{};"
        " return make_shard_tensor(t.engine, layout, make_shard_layout(layout, attrs, mesh)); };"
        "auto a = part(Ints<32, 16, 1>{}); auto b = part(Ints<32, 1, 2>{}); tilefoundry::copy(a, b);",
        "copy through a plain tensor with a barrier",
    ),
    "copy between factorings with another order of elements": (
        "auto t = sharded(Ints<4, 32, 6>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "auto u = sharded(Ints<4, 32, 2, 3>{}, cute::tuple<shard::S<0>, shard::S<1>>{}); tilefoundry::copy(t, u);",
        "copy through a plain tensor with a barrier",
    ),
    "mesh without a level": (
        "Mesh<cute::Layout<cute::Int<4>>> m{}; (void)m;",
        "Mesh: name at least one topology level",
    ),
    "mesh of something else than a layout": (
        "Mesh<int, TopologyScope::cta> m{}; (void)m;",
        "Mesh: the first argument must be a cute layout",
    ),
    "shape of the sentinel": (
        "program_shape<TopologyScope::scope_count>();",
        "program_shape: scope_count is a sentinel",
    ),
    "neither tensor nor pointer": (
        "make_shard_tensor(1.0f, 0, sharded(Ints<4, 32>{}, cute::tuple<shard::S<0>, shard::S<1>>{}).shard_layout);",
        "the first argument must be a cute tensor or view",
    ),
    "copy from a raw pointer": (
        "auto t = sharded(Ints<4, 32, 2>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "float* p = storage; tilefoundry::copy(p, t);",
        "wrap a raw pointer first",
    ),
    "copy to a raw pointer": (
        "auto t = sharded(Ints<4, 32, 2>{}, cute::tuple<shard::S<0>, shard::S<1>>{});"
        "float* p = storage; tilefoundry::copy(t, p);",
        "wrap a raw pointer first",
    ),
    "plain copy of another size": (
        "auto a = cute::make_tensor<float>(cute::Int<2>{}); auto b = cute::make_tensor<float>(cute::Int<3>{});"
        "tilefoundry::copy(a, b);",
        "hold different numbers of elements",
    ),
}


@pytest.mark.spec("cpp.refused")
@pytest.mark.parametrize("name", REFUSED)
def test_refused_on_the_host(name: str, cuda_gxx):
    body, sentence = REFUSED[name]
    built = cuda_gxx(f"{PRELUDE}int main() {{ {body} }}\n", "-fsyntax-only")
    assert "error" in built.log
    # String literals are shown split where the source splits them.
    assert sentence in built.log.replace('"\n', "")


def test_the_prelude_itself_compiles(cuda_gxx):
    """Otherwise every refusal above would pass for the wrong reason."""
    fine = (
        "auto t = sharded(Ints<4, 32, 6>{}, cute::tuple<shard::S<0>, shard::S<1>>{}); local(t);"
        "auto u = sharded(Ints<4, 32, 6>{}, cute::tuple<shard::S<0>, shard::S<1>>{}); tilefoundry::copy(t, u);"
    )
    built = cuda_gxx(f"{PRELUDE}int main() {{ {fine} }}\n", "-O0")
    assert built.ok, built.log


@pytest.mark.spec("cpp.one-target")
@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            ("-DTILEFOUNDRY_TARGET_CUDA",),
            "both TILEFOUNDRY_TARGET_CUDA and TILEFOUNDRY_TARGET_CPU are defined",
        ),
        (("-UTILEFOUNDRY_TARGET_CPU",), "no target macro"),
    ],
)
def test_exactly_one_target(flags: tuple[str, ...], sentence: str, cpu_gxx):
    """The fixture defines the CPU target; both and neither are refused."""
    source = UMBRELLA if "-D" in flags[0] else "#undef TILEFOUNDRY_TARGET_CPU\n" + UMBRELLA
    built = cpu_gxx(source, *(f for f in flags if f.startswith("-D")), "-fsyntax-only")
    assert not built.ok
    assert sentence in built.log


CPU_REFUSED = {
    "exp of an integer": ("int x = 1; ops::exp_op{}(x);", "exp_op: needs a floating-point operand"),
    "copy to another type": (
        "float x[2]; double y[2]; copy(make_view<1>(x, {2}), make_view<1>(y, {2}));",
        "use ops::cast",
    ),
    "integer mean into an integer": (
        "int x[2], y[1]; ops::reduce<ops::mean_op>(make_view<1>(x, {2}), make_view(y));",
        "the mean of integers is not an integer",
    ),
    "softmax of integers": (
        "int x[2]; ops::softmax(make_view<1>(x, {2}), make_view<1>(x, {2}));",
        "ops::softmax: needs a floating-point operand",
    ),
}


@pytest.mark.spec("cpp.refused")
@pytest.mark.parametrize("name", CPU_REFUSED)
def test_refused_on_the_cpu_target(name: str, cpu_gxx):
    body, sentence = CPU_REFUSED[name]
    source = f"#include <tilefoundry/runtime.h>\nusing namespace tilefoundry;\nint main() {{ {body} }}\n"
    built = cpu_gxx(source, "-fsyntax-only")
    assert "error" in built.log
    assert sentence in built.log


DEVICE = """
#include <tilefoundry/runtime.h>
namespace tilefoundry {{
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::cta>() noexcept {{
  return cute::Shape<cute::Int<4>>{{}};
}}
template <>
CUTE_HOST_DEVICE constexpr auto program_shape<TopologyScope::thread>() noexcept {{
  return cute::Shape<cute::Int<64>>{{}};
}}
}}
using namespace tilefoundry;
template <int... N> using Ints = cute::tuple<cute::Int<N>...>;
extern "C" __global__ void kernel(float* p) {{
  auto grid = cute::make_layout(Ints<4, 64>{{}}, cute::LayoutRight{{}});
  auto mesh = make_mesh<TopologyScope::cta, TopologyScope::thread>(grid);
  auto layout = cute::make_layout(Ints<4, 64, 2>{{}}, cute::LayoutRight{{}});
  auto src = make_shard_tensor(as_gmem(p, layout), layout,
                               make_shard_layout(layout, cute::tuple<shard::S<0>, shard::S<1>>{{}}, mesh));
  auto dst = cute::make_tensor<float>(cute::Int<2>{{}});
  auto one = cute::make_tensor<float>(cute::Int<1>{{}});
  {body}
}}
"""
DEVICE_REFUSED = {
    "reduction across blocks": (
        "ops::reduce<ops::sum_op, ops::axes<0>>(src, dst);",
        "crosses CTA boundaries",
    ),
    "workspace missing": (
        "ops::reduce<ops::sum_op, ops::axes<1, 2>>(src, one);",
        "needs a shared-memory workspace",
    ),
    "workspace too small": (
        "__shared__ char ws[4]; ops::reduce<ops::sum_op, ops::axes<1, 2>>(src, one, ws);",
        "smaller than reduce_workspace_bytes",
    ),
    "destination of another size": (
        "__shared__ char ws[512]; ops::reduce<ops::sum_op, ops::axes<1>>(src, one, ws);",
        "one element for each that src keeps",
    ),
    "raw pointer operand": ("ops::unary(ops::relu_op{}, p, dst);", "accepted at kernel boundaries only"),
    "named barrier of a part of a warp": (
        "ops::sync<ops::SyncKind::named, 0, 48, 0, 1>();",
        "a named barrier takes whole warps",
    ),
    "hardware barrier 0": ("ops::sync<ops::SyncKind::named, 0, 32, 0, 0>();", "BarId must be 1 to 15"),
    "lanes without a mask": ("ops::sync<ops::SyncKind::lanes>();", "lanes needs a mask"),
    "lanes from within a warp": (
        "ops::sync<ops::SyncKind::lanes, 8, 0, 0xffu>();",
        "Base must be a multiple of 32",
    ),
    "asynchronous copy to another type": (
        "auto d = cute::make_tensor<double>(cute::Int<2>{}); ops::copy_async(src, d);",
        "ops::copy_async: source and destination hold different element types",
    ),
    "asynchronous copy of another size": (
        "__shared__ float memory[3];"
        "auto d = cute::make_tensor(cute::make_smem_ptr(memory), cute::Layout<cute::Int<3>>{});"
        "ops::copy_async(src, d);",
        "ops::copy_async: source and destination hold different numbers of elements",
    ),
    "copy_n to another type": (
        "auto d = cute::make_tensor<double>(cute::Int<2>{}); ops::copy_n(src, d, 1);",
        "ops::copy_n: source and destination hold different element types",
    ),
    "integer mean into an integer": (
        "int x[2] = {}; auto i = cute::make_tensor(&x[0], cute::Layout<cute::Int<2>>{});"
        "auto o = cute::make_tensor<int>(cute::Int<1>{}); ops::reduce<ops::mean_op, ops::axes<0>>(i, o);",
        "the mean of integers is not an integer",
    ),
    "canonical shape that does not factor the logical one": (
        "auto logical = cute::make_layout(Ints<8, 64>{});"
        "auto odd = make_shard_tensor(as_gmem(p, layout), logical, src.shard_layout);"
        "ops::reduce<ops::sum_op, ops::axes<1>>(odd, one);",
        "does not factor the logical one",
    ),
    "operands of different sizes": (
        "auto three = cute::make_tensor<float>(cute::Int<3>{}); ops::unary(ops::relu_op{}, dst, three);",
        "different numbers of elements",
    ),
}


@pytest.mark.spec("cpp.refused")
@pytest.mark.parametrize("name", DEVICE_REFUSED)
def test_refused_on_the_device(name: str, nvrtc):
    body, sentence = DEVICE_REFUSED[name]
    features = [f"-DTILEFOUNDRY_USE_{f}" for f in ("ELEMENTWISE", "REDUCE", "SYNC", "ASYNC")]
    built = nvrtc(DEVICE.format(body=body), "sm_80", "-DTILEFOUNDRY_TARGET_CUDA", *features)
    assert not built.ok
    assert sentence in built.log


def test_the_device_prelude_itself_compiles(nvrtc):
    built = nvrtc(DEVICE.format(body=""), "sm_80", "-DTILEFOUNDRY_TARGET_CUDA", "-DTILEFOUNDRY_USE_REDUCE")
    assert built.ok, built.log
