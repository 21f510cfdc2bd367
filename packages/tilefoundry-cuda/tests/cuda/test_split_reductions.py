"""Long reductions in two steps. Oracles: the evaluator on the program before the pass; torch in float64 on a GPU."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilefoundry import evaluate, func, jit
from tilefoundry.codegen import explain
from tilefoundry.codegen.cuda import split_reductions
from tilefoundry.codegen.cuda.split_reductions import SplitReductions
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, tf
from tilefoundry.ir.core.expr import Bind, Call
from tilefoundry.verbs import as_module

from ..cpu.harness import Program, random_tensor
from ..placed_text import H200

N = DimVar("N", 1, 10_000_000)


def reductions(program):
    entry = SplitReductions().run(as_module(program)).entry_function()
    calls = [s.value for s in entry.stmts() if isinstance(s, Bind) and isinstance(s.value, Call)]
    return entry, [call for call in calls if call.op.name == "reduce"]


@pytest.mark.spec("reductions.split")
@given(st.data())
@settings(max_examples=120, deadline=None)
def test_values_stay(data):
    """Small extents count as long here, so that every way to cut is reached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_reductions, "MOST_OF_A_BLOCK", 8)
        patch.setattr(split_reductions, "_SHORTEST", {True: 2, False: 2})
        shape = tuple(data.draw(st.lists(st.sampled_from((1, 2, 6, 8, 12, 35)), min_size=1, max_size=4)))
        axes = tuple(sorted(data.draw(st.sets(st.integers(0, len(shape) - 1), min_size=1))))
        kind = data.draw(st.sampled_from(("sum", "mean", "max", "min", "absmax")))
        dtype = data.draw(
            st.sampled_from(("f32", "bf16", "f16", "f64") + (("i32",) if kind != "mean" else ()))
        )
        p = Program("reduced")
        x = p.param("x", shape, dtype)
        vector = p.param("v", shape[-1:], dtype)
        value = p("mul", p("add", x, x), vector) if data.draw(st.booleans()) else x
        keep = data.draw(st.booleans())
        function = p.done(p("reduce", value, axes=axes, keepdim=keep, kind=kind))
        entry, _ = reductions(function)
        tensors = [random_tensor(shape, dtype, 3), random_tensor(shape[-1:], dtype, 4)]
        got, want = evaluate(entry, *tensors), evaluate(function, *tensors)
    assert got.shape == want.shape and got.dtype == want.dtype
    if kind in ("sum", "mean") and dtype != "i32":
        eps = torch.finfo(want.dtype).eps
        scale = evaluate(function, *(t.abs() for t in tensors)).double().clamp(min=1e-30)
        assert ((got.double() - want.double()).abs() <= 8 * eps * scale).all()
    else:
        assert torch.equal(got, want)


@func
def whole(x: Tensor[(4096, 4096), "bf16"]) -> Tensor[(), "bf16"]:
    return tf.reduce(x, axes=(0, 1), keepdim=False, kind="mean")


@func
def columns(x: Tensor[(16384, 1024), "f32"], w: Tensor[(1024,), "f32"]) -> Tensor[(1024,), "f32"]:
    return tf.reduce(tf.tanh(x) * w, axes=(0,), keepdim=False, kind="sum")


@func
def few_rows(x: Tensor[(3, 1048576), "f32"]) -> Tensor[(3, 1), "f32"]:
    return tf.reduce(x, axes=(1,), keepdim=True, kind="absmax")


@func
def channels(x: Tensor[(32, 16, 8192), "f32"]) -> Tensor[(16,), "f32"]:
    return tf.reduce(x, axes=(0, 2), keepdim=False, kind="max")


@func
def open_rows(x: Tensor[(N, 64), "f32"]) -> Tensor[(), "f32"]:
    return tf.reduce(x, axes=(0, 1), keepdim=False, kind="sum")


LONG = [whole, columns, few_rows, channels, open_rows]


@pytest.mark.parametrize("program", LONG, ids=lambda f: f.name)
@pytest.mark.spec("reductions.split")
def test_many_blocks_take_part_and_nothing_else_is_stored(program):
    first, second = explain(program, target=H200).kernels
    assert "reduce" in first.ops and "reduce" in second.ops
    blocks = first.launch.grid
    assert not isinstance(blocks, int) or blocks >= 128
    if isinstance(first.writes, int):
        assert first.writes * 50 < first.reads, "only what the pieces gave is stored"


@func
def short(x: Tensor[(64, 64), "f32"]) -> Tensor[(64,), "f32"]:
    return tf.reduce(x, axes=(0,), keepdim=False, kind="sum")


@func
def many_rows(x: Tensor[(32768, 4096), "bf16"]) -> Tensor[(32768, 4096), "bf16"]:
    return tf.softmax(x)


@func(topologies=(Topology("cta", 1), Topology("thread", 256)))
def placed(x: Tensor[(1048576,), "f32"]) -> Tensor[(1,), "f32"]:
    with Mesh(("cta", "thread"), (1, 256), ("b", "t")) as m:
        a = tf.reshard(x, (1048576 @ m.t,), "rmem")
        out = tf.reshard(tf.reduce(a, axes=(0,), keepdim=True, kind="sum"), (1,), "gmem")
    return out


@pytest.mark.parametrize("program", [short, many_rows, placed], ids=lambda p: p.name)
@pytest.mark.spec("reductions.split")
def test_what_has_enough_blocks_or_an_author_stays(program):
    module = as_module(program)
    before = [s for s in module.entry_function().stmts() if isinstance(s, Bind)]
    after = [s for s in SplitReductions().run(module).entry_function().stmts() if isinstance(s, Bind)]
    assert [s.value.op.name for s in after] == [s.value.op.name for s in before]


@pytest.mark.gpu
@pytest.mark.parametrize("program", LONG, ids=lambda f: f.name)
@pytest.mark.spec("reductions.split", "reductions.order")
def test_on_a_gpu(program):
    compiled = jit(program, target="cuda")
    given = [
        torch.randn([70_001 if isinstance(d, DimVar) else d for d in p.type.shape], device="cuda").to(
            getattr(torch, p.type.dtype.torch_name)
        )
        for p in compiled.type.input_params
    ]
    wide = [t.double() for t in given]
    wanted = {
        "whole": lambda x: x.mean(),
        "columns": lambda x, w: (x.tanh() * w).sum(0),
        "few_rows": lambda x: x.abs().amax(1, keepdim=True),
        "channels": lambda x: x.amax((0, 2)),
        "open_rows": lambda x: x.sum(),
    }[program.name](*wide)
    first = compiled(*given)
    torch.testing.assert_close(first.double(), wanted, rtol=1e-2 if program is whole else 1e-4, atol=5e-3)
    for _ in range(10):
        assert torch.equal(compiled(*given), first)
