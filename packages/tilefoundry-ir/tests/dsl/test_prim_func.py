"""@prim_func: statements over buffers. Oracle: a small interpreter of TIR against the formula in Python."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tilefoundry.dsl import DimVar, Mesh, T, Tensor, Topology, module, prim_func, tf
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir.expr import BufferView
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.tir.stmt import Evaluate, For, If, Launch, MeshScope, walk_tir

N = DimVar("N", 1, 100)


def sibling(name: str):
    spec = importlib.util.spec_from_file_location(f"dsl_{name}", Path(__file__).with_name(f"{name}.py"))
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


model = sibling("tir_model")


@pytest.mark.spec("dsl.decorators")
def test_elements_are_loaded_and_stored():
    @prim_func
    def f(x: Tensor[(N, 3), "f32"], y: Tensor[(N, 3), "f32"]):
        for i in range(N):
            for j in T.vectorized(3):
                v = tf.exp(x[i, j]) * 2.0
                y[i, j] = T.select(v > 3.0, v, T.cast(i + 10 * j, "f32"))

    assert isinstance(f, PrimFunction) and f.output_count == 1
    kinds = [s.kind for s in walk_tir(f.body) if isinstance(s, For)]
    assert kinds == ["serial", "vector"]
    x, y = [0.1 * k for k in range(12)], [0.0] * 12
    model.interpret(f, {"N": 4}, x=x, y=y)
    import math

    for i in range(4):
        for j in range(3):
            v = math.exp(x[3 * i + j]) * 2
            assert y[3 * i + j] == (v if v > 3 else i + 10 * j)


def test_accumulators_and_parallel_pieces():
    @prim_func
    def f(x: Tensor[(N, 4), "f32"], total: Tensor[(N,), "f32"], top: Tensor[(N,), "f32"]) -> None:
        """Two outputs."""
        for begin, end in T.parallel(N, cost=4):
            for i in range(begin, end):
                acc = T.accumulator("sum")
                high = T.accumulator("max", "f32")
                for j in range(4):
                    acc += x[i, j]
                    high += x[i, j]
                total[i] = acc / 2.0
                top[i] = high

    assert f.output_count == 2
    x = [float((7 * k) % 5) for k in range(20)]
    total, top = [0.0] * 5, [0.0] * 5
    model.interpret(f, {"N": 5}, x=x, total=total, top=top)
    assert total == [sum(x[4 * i : 4 * i + 4]) / 2 for i in range(5)]
    assert top == [max(x[4 * i : 4 * i + 4]) for i in range(5)]


@pytest.mark.spec("tir.statements")
def test_branches_loops_and_allocations():
    @prim_func
    def f(x: Tensor[(N,), "f32"], y: Tensor[(N,), "f32"]):
        state = T.alloc_tensor(Tensor[(2,), "f32"])
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
        if False:
            y[0] = 99.0

    x, y = [1.0, 3.0, 5.0, 2.5], [0.0] * 4
    model.interpret(f, {"N": 4}, x=x, y=y)
    assert y == [-1.0, 10.0, 25.0, 0.0]
    assert sum(isinstance(s, If) for s in walk_tir(f.body)) == 3


@pytest.mark.spec("tir.statements")
def test_return_and_abort():
    @prim_func
    def f(x: Tensor[(N,), "f32"], y: Tensor[(N,), "f32"]):
        T.abort(x[0] > 100.0, "too large", kind="OverflowError")
        y[0] = 1.0
        if x[0] > 1.0:
            return
        y[0] = 2.0

    y = [0.0]
    model.interpret(f, {"N": 1}, x=[5.0], y=y)
    assert y == [1.0]
    model.interpret(f, {"N": 1}, x=[0.0], y=y)
    assert y == [2.0]
    with pytest.raises(model.Aborted, match="OverflowError: too large"):
        model.interpret(f, {"N": 1}, x=[101.0], y=y)


@pytest.mark.spec("tir.ops")
def test_views_and_tile_ops():
    @prim_func
    def f(x: Tensor[(N, 8), "f32"], w: Tensor[(8,), "f32"], y: Tensor[(N, 8), "f32"]):
        for i in range(N):
            T.copy(x[i, 2:6], y[i, :4])
            T.fill(y[i, 4:], 0.0)
            T.rms_norm(x[i], w, y[i], eps=1e-6)
            T.binary(x[i, :], w, y[i], "add")
            T.reduce(x, y[:, 0], axes=(1,), kind="max")
            T.clamp(x[i], y[i], 0.0, 1.0)
            T.cp_async_commit()
            T.cp_async_wait(1)

    found = [s for s in walk_tir(f.body) if isinstance(s, Evaluate)]
    assert [s.op for s in found] == [
        "copy",
        "fill",
        "rms_norm",
        "binary",
        "reduce",
        "clamp",
        "cp_async_commit",
        "cp_async_wait",
    ]
    source, target = found[0].args
    assert isinstance(source, BufferView)
    assert (source.buffer.name, source.type.shape, source.strides, str(source.offset)) == (
        "x",
        (4,),
        (1,),
        "i * 8 + 2",
    )
    assert (target.buffer.name, target.type.shape) == ("y", (4,))
    assert found[1].args[-1].buffer.name == "y"
    assert dict(found[3].attrs) == {"kind": "add"}
    assert (found[4].args[1].strides, dict(found[4].attrs)) == ((8,), {"axes": (1,), "kind": "max"})
    assert dict(found[7].attrs) == {"pending": 1}


@pytest.mark.spec("tir.sync")
def test_mesh_scopes_and_sync():
    @prim_func(topologies=(Topology("cta", 4), Topology("thread", 64)))
    def f(x: Tensor[(N,), "f32"], y: Tensor[(N,), "f32"]):
        with Mesh(("thread",), (64,), ("t",)) as m:
            T.copy(x, y)
            T.sync(m)

    assert isinstance(f, Module) and f.entry == "f"
    (scope,) = f.lookup("f").body
    assert isinstance(scope, MeshScope) and dict(scope.body[1].attrs) == {"mesh": scope.mesh}


@pytest.mark.spec("tir.launch")
def test_launch():
    @module(entry="host")
    class M:
        @prim_func
        def kernel(x: Tensor[(N, 8), "f32"], y: Tensor[(N, 8), "f32"]):
            T.copy(x, y)

        @prim_func
        def host(x: Tensor[(N, 4, 8), "f32"], y: Tensor[(N, 4, 8), "f32"]):
            for i in range(N):
                T.launch(kernel, x[i], y[i], grid=(N, 2), block=128, cooperative=True)

    launch = next(s for s in walk_tir(M.lookup("host").body) if isinstance(s, Launch))
    assert (launch.callee, launch.grid, launch.block) == ("kernel", (N, 2), (128,))
    assert [arg.buffer.name for arg in launch.args[:2]] == ["x", "y"]
    assert launch.args[2].value == 4
    assert launch.attributes == (("cooperative", True),)
    assert M.lookup("host").output_count == 1


@pytest.mark.spec("tir.statements")
def test_loops_end_by_what_their_body_writes_or_by_return():
    @prim_func
    def halved(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        y[0] = x[0]
        while y[0] > 1.0:
            y[0] = y[0] * 0.5
        while x[0] > 0.0:
            y[1] = y[1] + 1.0
            if y[1] > 5.0:
                return

    x, y = [9.0, 0.0, 3.0, 4.0], [0.0] * 4
    model.interpret(halved, {}, x=x, y=y)
    assert y == [0.5625, 6.0, 0.0, 0.0]
