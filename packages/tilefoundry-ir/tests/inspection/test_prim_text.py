"""Statement-level functions as text. Oracle: equality of the IR after reading back; recomposed indices."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prim_programs import generate
from programs import read_back

from tilefoundry.inspection import as_script
from tilefoundry.inspection.tir_exprs import positions
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir.expr import Load
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.tir.stmt import Comment, Guard, Return, Store, walk_tir
from tilefoundry.ir.types import DimVar, TensorType
from tilefoundry.ir.types.shard import c_order

HEAD = """
from tilefoundry.dsl import *
N = DimVar("N", 1, 100)
M = DimVar("M", 1, 100)
"""

PROGRAMS = {
    "elements": """
@prim_func
def f(x: Tensor[(N, 3), "f32"], y: Tensor[(N, 3), "f32"]):
    for i in range(N):
        for j in T.vectorized(3):
            v = tf.exp(x[i, j]) * 2.0
            y[i, j] = T.select(v > 3.0, v, T.cast(i + 10 * j, "f32"))
""",
    "dynamic_strides": """
@prim_func
def f(x: Tensor[(N, M, 4), "bf16"], y: Tensor[(N, M, 4), "bf16"]):
    for i in range(1, N, 2):
        for j in range(M - 1):
            y[i - 1, j + 1, 3] = x[i, j, 0] + 1e-30
            y[i, 2 * j, 1] = -x[i, j, 2]
""",
    "accumulators": """
@prim_func
def f(x: Tensor[(N, 4), "f32"], total: Tensor[(N,), "f32"], top: Tensor[(N,), "f32"]):
    for begin, end in T.parallel(N, cost=4):
        for i in range(begin, end):
            acc = T.accumulator("sum")
            high = T.accumulator("max", "f32")
            for j in range(4):
                acc += x[i, j]
                high += x[i, j]
            total[i] = acc / 2.0
            top[i] = high
""",
    "control": """
@prim_func
def f(x: Tensor[(N,), "f32"], y: Tensor[(N,), "f32"]):
    T.abort(x[0] > 100.0, "too \\"large\\"", kind="OverflowError")
    T.abort(x[0] < -100.0, "too small")
    state = T.alloc_tensor(Tensor[(2,), "f32", None, "smem"])
    state[0] = 1.0
    while state[0] < 10.0:
        state[0] += 3.0
    for i in range(N):
        if (x[i] > 2.0) & ~(x[i] > 4.0):
            y[i] = state[0]
        elif i == 0:
            y[i] = -1.0
        else:
            y[i] = x[i] ** 2
    if N > 3:
        y[N - 1] = 0.0
        return
    y[0] = T.clamp(y[0], min_val=0.0)
""",
    "tile_ops": """
@prim_func
def f(x: Tensor[(N, 8), "f32"], w: ConstTensor[(8,), "f32"], ws: Tensor[(8,), "f32"], y: Tensor[(N, 8), "f32"]):
    with Mesh(("cta", "thread"), (2, 4, 8), ("b", "w", "t")) as c:
        for i in range(N):
            T.copy(x[i, 2:6], y[i, :4])
            T.fill(y[i, 4:], 0.0)
            T.rms_norm(x[i], w, y[i], eps=1e-6)
            T.binary(x[i, :], w, y[i], "add")
            T.reduce(x, y[:, 0], ws, axes=(1,), kind="max")
            T.clamp(x[i], y[i], 0.0, 1.0)
            T.copy(T.tensor_view(x, (N, 4), (8, 2), 1), T.tensor_view(y, (N, 4), (8, 1)))
            T.cp_async_commit()
            T.cp_async_wait(1)
        T.sync(c)
        T.sync(Mesh(("thread",), (32,), ("t",))[0:16])
""",
    "contraction": """
@prim_func
def f(x: Tensor[(N, M, 64), "bf16"], g: Tensor[(64, 96), "bf16"], w: Tensor[(64, 96), "i8"], s: Tensor[(96,), "f32"],
      b: Tensor[(96,), "f32"], y: Tensor[(N, M, 96), "bf16"], z: Tensor[(N, M, 96), "f32"]):
    wide = (T.cast(w[k, j], "f32") * s[j] for k, j in T.elements((64, 96), "bf16"))
    for n, i, j, gate, up in T.contract(x, (g, wide), tile=(128, 96, 64), stages=4, cluster=(2, 1), persistent=True):
        h = T.silu(gate) * up
        y[n, i, j] = h + b[j]
        if j > 3:
            z[n, i, j] = gate
    for n, i, j, total in T.contract(x, wide):
        z[n, i, j] = total
    for n, i, j, total in T.contract(x, g, split_k=4):
        z[n, i, j] = total
    for i, j, total in T.contract(x[0, :, 8:24], g[8:24]):
        z[1, i, j] = total
""",
    "attention": """
@prim_func
def f(q: Tensor[(2, 8, M, 64), "f16"], k: Tensor[(2, 2, N, 64), "f16"], v: Tensor[(2, 2, N, 64), "f16"],
      n: Tensor[(), "i32"], y: Tensor[(2, M, 8, 64), "f16"]):
    for b, h, i, d, o in T.attention(q, k, v, n, causal=True, window=128, softcap=30.0, tile=(64, 128), split_kv=4):
        y[b, i, h, d] = o
    for b, h, i, d, o in T.attention(q, k, v, scale=0.1, stages=2, persistent=True):
        y[b, i, h, d] = o * 2.0
""",
    "scalars": """
@prim_func
def f(pos: Tensor[(), "i64"], y: Tensor[(4,), "i32"], z: Tensor[(), "f32"]):
    p = pos[()]
    q = T.maximum(T.minimum(p, 3), 0) + 1
    y[0] = T.cast(q, "i32") // 2
    z[()] = 2.5
""",
}


@pytest.mark.spec("tir.statements")
@pytest.mark.parametrize("name", PROGRAMS)
def test_an_authored_function_reads_back_equal(name: str) -> None:
    function = read_back(HEAD + PROGRAMS[name])["f"]
    text = as_script(function)
    back = read_back(text)["f"]
    assert back == function, text
    assert as_script(back) == text


MODULE = """
from tilefoundry.target import CpuTarget

@module(entry="host", target=CpuTarget(), topologies=(Topology("cta", 4),))
class Net:
    @prim_func
    def twice(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
        for i in range(N):
            for j in T.vectorized(8):
                y[i, j] = x[i, j] * 2.0

    @prim_func
    def host(x: Tensor[(M, 8), "f32"], y: Tensor[(M, 8), "f32"]):
        held = T.alloc_tensor(Tensor[(M, 8), "f32"])
        T.launch(twice, x, held, grid=4, block=(32,), cooperative=True)
        T.launch(twice, held, y)
"""


@pytest.mark.spec("tir.launch")
def test_a_module_with_launches_reads_back_equal() -> None:
    net = read_back(HEAD + MODULE)["Net"]
    assert isinstance(net, Module)
    text = as_script(net)
    assert read_back(text)["Net"] == net, text
    assert "T.launch(twice, x, held, grid=(4,), block=(32,), cooperative=True)" in text


CHILDREN = """
@module(entry="host")
class Net:
    @prim_func(topologies=(Topology("cta", 4), Topology("thread", 64)))
    def twice(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
        with Mesh(("thread",), (64,), ("t",)) as m:
            T.copy(x, y)
            T.sync(m)

    again = twice

    @prim_func
    def host(x: Tensor[(M, 8), "f32"], y: Tensor[(M, 8), "f32"]):
        T.launch(twice, x, y, cluster=2, grid=4, programmatic=True)
        T.launch(again.twice, x, y)
"""


@pytest.mark.spec("tir.launch")
def test_launches_of_kernels_with_levels_of_their_own_read_back_equal() -> None:
    net = read_back(HEAD + CHILDREN)["Net"]
    text = as_script(net)
    assert read_back(text)["Net"] == net, text
    assert "T.launch(twice.twice, x, y, grid=(4,), cluster=(2,), programmatic=True)" in text
    assert "T.launch(again.twice, x, y)" in text
    assert net.lookup("host").output_count == 1


def test_what_only_lowering_makes_is_listed_for_readers() -> None:
    n = Var(TensorType((), "i64"), "n")
    x, y = (Var(TensorType((DimVar("N", 1, 100),), "f32"), name) for name in ("x", "y"))
    body = (Comment("y = x"), Guard(n, "take", DimVar("N", 1, 100), (Store(y, 0, Load.of(x, 0)),)), Return())
    text = as_script(PrimFunction("f", (x, y), body, 1))
    lines = [line.strip() for line in text.splitlines()]
    assert "# y = x" in lines
    assert 'guard(fault=n, op="take", extent=N):' in lines
    assert "y[0] = x[0]" in lines


I, J = DimVar("i", 0, 9), DimVar("j", 0, 9)
N = DimVar("N", 1, 100)


@given(
    st.lists(st.sampled_from([1, 2, 3, 8, N]), min_size=1, max_size=3),
    st.integers(0, 50),
    st.lists(st.integers(0, 4), min_size=3, max_size=3),
)
def test_positions_compose_to_the_linear_index(shape: list, constant: int, factors: list[int]) -> None:
    strides = c_order(tuple(shape))
    index = constant
    for factor, term, stride in zip(factors, (I, J, I * J), (strides * 3)[:3], strict=True):
        index = index + term * factor * stride
    found = positions(index, shape)
    total = 0
    for position, stride in zip(found, strides, strict=True):
        total = total + position * stride
    assert total == index


@pytest.mark.spec("text.round-trip")
def test_generated_functions_read_back_equal() -> None:
    kinds: set[str] = set()
    for seed in range(150):
        source = generate(seed)
        function = read_back(source)["f"]
        text = as_script(function)
        back = read_back(text)["f"]
        assert back == function, f"seed {seed}\n{source}\n{text}"
        assert as_script(back) == text
        kinds |= {type(stmt).__name__ for stmt in walk_tir(function.body)}
    assert kinds >= {"Let", "Store", "For", "If", "Evaluate", "Accumulator", "Accumulate", "TileContraction"}
