"""Windows inside of hand-placed scopes that the call's extents put outside.

Oracles: every turn of every loop, one by one; outputs that stay as they were.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tilefoundry import compile, func
from tilefoundry.codegen.kernel_windows import window_checks
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, ceildiv, tf, tile
from tilefoundry.evaluator import evaluate
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Abort, Apply, Let
from tilefoundry.ir.types.dim import evaluate_dim
from tilefoundry.target import CudaTarget

H200 = CudaTarget("nvidia.h200_sxm")
N = DimVar("N", 1, 100)
K = DimVar("K", 1, 9)
LEVELS = (Topology("cta", 2), Topology("thread", 32))


@func(topologies=LEVELS)
def rows(x: Tensor[(N, 32), "f32"]) -> Tensor[(4, 32), "f32"]:
    with Mesh(("thread",), (32,), ("t",)) as m:
        y = tf.reshard(x[2:6, :], (4, 32 @ m.t), "rmem")
        out = tf.reshard(y * 2.0, (4, 32), "gmem")
    return out


@func(topologies=LEVELS)
def tail(x: Tensor[(N, 32), "f32"]) -> Tensor[(4, 32), "f32"]:
    with Mesh(("thread",), (32,), ("t",)) as m:
        y = tf.reshard(tf.slice(x, (N - 4, 0), sizes=(4, 32)), (4, 32 @ m.t), "rmem")
        out = tf.reshard(y, (4, 32), "gmem")
    return out


@func(topologies=LEVELS)
def spread(x: Tensor[(N, 32), "f32"]) -> Tensor[(3, 32), "f32"]:
    with Mesh(("thread",), (32,), ("t",)) as m:
        y = tf.reshard(tf.slice(x, (1, 0), sizes=(3, 32), strides=(2, 1)), (3, 32 @ m.t), "rmem")
        out = tf.reshard(y, (3, 32), "gmem")
    return out


@func(topologies=LEVELS)
def halved(x: Tensor[(N, 32), "f32"], y: Tensor[(ceildiv(N, 2), 32), "f32"]) -> Tensor[(32,), "f32"]:
    with Mesh(("thread",), (32,), ("t",)) as m:
        total = tf.reshard(x[0, :], (32 @ m.t,), "rmem")
        for i in range(0, N, 3):
            total = total + tf.reshard(y[i, :], (32 @ m.t,), "rmem")
        out = tf.reshard(total, (32,), "gmem")
    return out


@func(topologies=LEVELS)
def late(x: Tensor[(N, 32), "f32"], k: Tensor[(K,), "f32"]) -> Tensor[(32,), "f32"]:
    with Mesh(("thread",), (32,), ("t",)) as m:
        total = tf.reshard(x[0, :], (32 @ m.t,), "rmem")
        for i in range(K, 6):
            total = total + tf.reshard(x[i, :], (32 @ m.t,), "rmem")
        out = tf.reshard(total, (32,), "gmem")
    return out


@func(topologies=LEVELS)
def stepped(x: Tensor[(N, 32), "f32"], k: Tensor[(K,), "f32"]) -> Tensor[(32,), "f32"]:
    with Mesh(("thread",), (32,), ("t",)) as m:
        total = tf.reshard(x[0, :], (32 @ m.t,), "rmem")
        for i in range(0, 9, K):
            total = total + tf.reshard(x[i, :], (32 @ m.t,), "rmem")
        out = tf.reshard(total, (32,), "gmem")
    return out


@func(topologies=LEVELS)
def shifted(x: Tensor[(N, 32), "f32"], y: Tensor[(ceildiv(N, 3) * 4, 32), "f32"]) -> Tensor[(N, 32), "f32"]:
    out = tf.workspace(Tensor[(N, 32), "f32"])
    with Mesh(("cta", "thread"), (2, 32), ("c", "t")) as m:
        for i in tile(N, 4, over=m.c):
            a = tf.reshard(tf.slice(y, (i.start, 0), sizes=(i.extent, 32)), (i.extent, 32 @ m.t), "rmem")
            b = tf.reshard(tf.slice(x, (i.start + 1, 0), sizes=(i.extent, 32)), (i.extent, 32 @ m.t), "rmem")
            out = tf.insert_slice(out, tf.reshard(a + b, (i.extent, 32), "gmem"), (i.start, 0))
    return out


@func(topologies=LEVELS)
def nested(x: Tensor[(N,), "f32"], few: Tensor[(K,), "f32"]) -> Tensor[(N,), "f32"]:
    y = tf.workspace(Tensor[(N,), "f32"])
    with Mesh(("cta", "thread"), (2, 32), ("b", "t")) as m:
        for i in tile(N, 6, over=m.b):
            for j in tile(i.extent, 4, over=m.t):
                a = tf.reshard(x[i][j], (j.extent,), "rmem")
                b = tf.reshard(tf.slice(few, (j.start,), sizes=(j.extent,)), (j.extent,), "rmem")
                y = tf.insert_slice(y, tf.reshard(a + b, (j.extent,), "gmem"), (i.start + j.start,))
    return y


def _tiles(extent: int, step: int) -> Iterator[tuple[int, int]]:
    return ((i, min(step, extent - i)) for i in range(0, extent, step))


INSIDE = {
    rows: lambda n, k: n >= 6,
    tail: lambda n, k: n >= 4,
    spread: lambda n, k: n > 1 + 2 * 2,
    halved: lambda n, k: all(i < -(-n // 2) for i in range(0, n, 3)),
    late: lambda n, k: all(i < n for i in range(k, 6)),
    stepped: lambda n, k: all(i < n for i in range(0, 9, k)),
    shifted: lambda n, k: all(i + w <= -(-n // 3) * 4 and i + 1 + w <= n for i, w in _tiles(n, 4)),
    nested: lambda n, k: all(j + v <= k for _, w in _tiles(n, 6) for j, v in _tiles(w, 4)),
}
"""Whether every window of every turn lies inside."""


def value(expr, env: dict[str, int]) -> int:
    """A host's expression over extents."""
    if not isinstance(expr, Apply):
        return evaluate_dim(expr.value, env)
    left, right = (value(arg, env) for arg in expr.args)
    return {
        "cmp_lt": left < right,
        "logical_or": bool(left or right),
        "logical_and": bool(left and right),
        "floor_div": left // right if right else 0,
    }[expr.op]


def stops(program, env: dict[str, int]) -> bool:
    function = program.lookup(program.name) if hasattr(program, "lookup") else program
    known = dict(env)
    for stmt in window_checks(function, Names(known).fresh):
        if isinstance(stmt, Let):
            known[stmt.target.name] = value(stmt.value, known)
        elif isinstance(stmt, Abort) and value(stmt.condition, known):
            return True
    return False


@pytest.mark.spec("args.windows")
@pytest.mark.parametrize("program", INSIDE, ids=lambda program: program.name)
def test_checks_stop_the_calls_that_have_a_turn_outside(program):
    wrong = [
        (n, k)
        for n in range(1, 30)
        for k in range(1, 9)
        if stops(program, {"N": n, "K": k}) == INSIDE[program](n, k)
    ]
    assert not wrong


@pytest.mark.spec("args.windows")
def test_windows_that_lie_inside_for_every_call_cost_nothing():
    @func(topologies=LEVELS)
    def copied(x: Tensor[(N, 32), "f32"]) -> Tensor[(N, 32), "f32"]:
        out = tf.workspace(Tensor[(N, 32), "f32"])
        with Mesh(("cta", "thread"), (2, 32), ("c", "t")) as m:
            for i in tile(N, 4, over=m.c):
                a = tf.reshard(x[i, :], (i.extent, 32 @ m.t), "rmem")
                out = tf.insert_slice(out, tf.reshard(a, (i.extent, 32), "gmem"), (i.start, 0))
        return out

    assert window_checks(copied.lookup("copied"), Names(()).fresh) == ()


@pytest.mark.spec("args.windows")
def test_a_hand_placed_entry_checks_extents_before_it_launches():
    host = compile(rows, target=H200).source.split("// host\n")[1]
    message = (
        "tf.slice(x, starts=(2, 0), sizes=(4, 32), strides=(1, 1)): f32[4, 32]: the window of axis 0, 4 long"
    )
    assert 0 < host.index(message) < host.index("call_.launch(")


def check_call(program, target, device: str) -> None:
    """One call that fits gives the evaluator's result, one that does not leaves its output alone."""
    compiled = compile(program, target=target)
    x = torch.randn(7, 32, device=device)
    assert torch.equal(compiled(x).cpu(), evaluate(program, x.cpu()))
    out = torch.full((4, 32), 7.0, device=device)
    with pytest.raises(
        ValueError, match=r"tf\.slice\(x, .*the window of axis 0, 4 long.* leaves its extent N"
    ):
        compiled(x[:3], out)
    assert bool((out == 7.0).all())


@pytest.mark.spec("args.windows")
def test_the_cpu_stops_such_calls():
    check_call(rows, "cpu", "cpu")


@pytest.mark.gpu
@pytest.mark.spec("args.windows")
@pytest.mark.parametrize("program", (rows, tail), ids=lambda program: program.name)
def test_a_gpu_stops_such_calls(program):
    check_call(program, CudaTarget.current(), "cuda")
