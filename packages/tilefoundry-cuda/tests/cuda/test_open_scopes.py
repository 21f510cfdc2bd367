"""Scopes whose values say nothing of their layout: spread over the mesh as it is, or refused with one that fits."""

from __future__ import annotations

import re
from unittest.mock import patch

import pytest
import torch

from tilefoundry import func, jit, lower
from tilefoundry.codegen import place
from tilefoundry.codegen.cuda import choose_meshes
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.dsl import DimVar, Mesh, Tensor, Topology, tf
from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script
from tilefoundry.ir.tir import Launch, PrimFunction, walk_tir

from ..cpu.harness import Program
from ..placed_text import H200, read_back, source_of
from .emulating import emulate
from .runners import compile_device_code

N = DimVar("N", 1, 1000)


def rows(extent: object) -> object:
    p = Program("rows")
    x = p.param("x", (N, extent))
    return p.done(p("softmax", x), p("reduce", x, axes=(1,), keepdim=False, kind="max"))


def columns(extent: int) -> object:
    p = Program("columns")
    return p.done(p("reduce", p.param("x", (N, extent)), axes=(0,), keepdim=False, kind="sum"))


def elements(extent: int) -> object:
    p = Program("elements")
    return p.done(p("mul", p("silu", p.param("x", (N, extent), "f16")), p.param("g", (extent,), "f16")))


def windows(extent: int) -> object:
    p = Program("windows")
    x, y = p.param("x", (64, extent)), p.param("y", (8, extent))
    return p.done(p("insert_slice", x, y, offsets=(16, 0)))


def edited(program: object, *changes: tuple[str, str]) -> object:
    """The placed program without layouts, as an author may write it too, with ``changes`` in its text."""
    with patch.object(choose_meshes, "chosen_spread", lambda spec: None):
        placed = place(program, target=H200)
    text = as_script(placed)
    assert "reshard" not in text
    for old, new in changes:
        assert old in text, text
        text = text.replace(old, new)
    return read_back(text, placed.name)


def launches(program: object) -> list[tuple[object, object]]:
    """(grid, block) of every launch."""
    host = lower(program, target=H200).entry_function()
    assert isinstance(host, PrimFunction)
    return [(s.grid[0], s.block[0]) for s in walk_tir(host.body) if isinstance(s, Launch)]


HALF = ('"thread", 256', '"thread", 128')
DOUBLE = ('"thread", 256', '"thread", 512')
CASES = {
    "narrower rows": (rows, 1000, [HALF, ("2, 128)", "2, 64)")]),
    "wider rows": (rows, 1000, [DOUBLE, ("2, 128)", "2, 256)")]),
    "a row of a block": (rows, 1000, [("(N + 1) // 2", "N"), HALF, ("2, 128)", "1, 128)")]),
    "rows of any length": (rows, DimVar("M", 1, 600), [HALF, ("2, 128)", "2, 64)")]),
    "fewer groups": (columns, 200, [('"thread", 1024', '"thread", 512'), ("32, 32)", "16, 32)")]),
    "more lanes": (columns, 200, [('"cta", 2', '"cta", 1'), ("(2, 32, 32)", "(1, 16, 64)")]),
    "elements": (elements, 4104, [HALF, ("1, 256)", "1, 128)"), ("N * 3", "N * 5")]),
    "tiles": (elements, 4104, [("N * 3", "N")]),
    "windows": (windows, 96, [HALF, ("256)", "128)")]),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.spec("placement.open-scopes")
def test_an_edited_mesh_is_the_launch(name):
    """Oracle: the numbers in the edited text."""
    make, extent, changes = CASES[name]
    before, after = launches(make(extent)), launches(edited(make(extent), *changes))
    assert [block for _, block in before] != [block for _, block in after] or before != after
    threads = next((int(new.rsplit(" ", 1)[1]) for old, new in changes if "thread" in old), before[0][1])
    assert {block for _, block in after} == {threads}
    grids = {"a row of a block": N, "more lanes": 1, "tiles": N, "elements": N * 5}
    assert [grid for grid, _ in after] == [grids.get(name, grid) for grid, _ in before]


@pytest.mark.spec("placement.open-scopes")
def test_wide_rows_wait_in_shared_memory_also_with_other_threads():
    """Oracle: the staged copies of the source, and the bytes that the launch asks for."""
    p = Program("wide")
    program = p.done(p("softmax", p.param("x", (64, 32768), "bf16")))
    fewer = edited(program, ('"thread", 512', '"thread", 384'), ("1, 512)", "1, 384)"))
    for one, threads in ((program, 512), (fewer, 384)):
        source = source_of(one, H200)
        assert re.search(rf"ops::StagedPacks<.*, {threads}> ", source)
    assert launches(fewer) == [(64, 384)]


def run_on_gpu(program: object) -> object:
    """A callable on CPU tensors that computes on the current GPU."""
    compiled = jit(program, target="cuda")

    def run(*tensors: torch.Tensor):
        return tuple(t.cpu() for t in _all(compiled(*(t.cuda() for t in tensors))))

    return run


RUNNERS = [
    pytest.param(emulate, id="emulated", marks=[pytest.mark.slow, pytest.mark.emulated]),
    pytest.param(run_on_gpu, id="gpu", marks=pytest.mark.gpu),
]


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.spec("placement.open-scopes")
def test_an_edited_mesh_computes_the_same(name, runner):
    """Oracle: the evaluator."""
    make, extent, changes = CASES[name]
    program = make(extent)
    compiled = runner(edited(program, *changes))
    env = {"N": 7, "M": 530}
    generator = torch.Generator().manual_seed(5)
    tensors = [
        torch.randn([env.get(getattr(n, "name", ""), n) for n in p.type.shape], generator=generator).to(
            torch.float16 if p.type.dtype.name == "f16" else torch.float32
        )
        for p in program.params
    ]
    wanted = evaluate(program, *tensors)
    for got, want in zip(_all(compiled(*tensors)), _all(wanted), strict=True):
        torch.testing.assert_close(got, want)


def _all(values):
    return values if isinstance(values, tuple) else (values,)


@func(topologies=(Topology("cta", N), Topology("thread", 96)))
def written(x: Tensor[(N, 1000), "f32"]) -> Tensor[(N, 1000), "f32"]:
    with Mesh(("cta", "thread"), (N, 96), ("b", "t")) as m:  # noqa: F841  # its name is all that is needed
        y = tf.softmax(x)
    return y


@pytest.mark.spec("placement.open-scopes")
def test_a_user_may_write_such_a_scope():
    """Oracle: the numbers in the program; NVRTC."""
    assert launches(written) == [(N, 96)]
    assert compile_device_code(written, "sm_90a") == 1


REFUSED = {
    "blocks": (
        [("(N + 1) // 2", "(N + 2) // 3")],
        r"blocks of 2 x 128 threads are \(\(N \+ 1\) // 2\); write Mesh",
    ),
    "odd lanes": (
        [('"thread", 256', '"thread", 96'), ("2, 128)", "2, 48)")],
        "whole warps or a power of two",
    ),
    "too many threads": (
        [('"thread", 256', '"thread", 2048'), ("2, 128)", "2, 1024)")],
        "2048 threads; their number must be static and at most 1024",
    ),
    "three thread axes": (
        [("(N + 1) // 2, 2, 128), (", '(N + 1) // 2, 2, 2, 64), ("a", ')],
        "more than two thread axes",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.spec("placement.open-scopes")
def test_a_mesh_that_does_not_fit_is_refused_with_one_that_does(name):
    changes, message = REFUSED[name]
    with pytest.raises(NotFollowed, match=message):
        lower(edited(rows(1000), *changes), target=H200)


@pytest.mark.parametrize(
    "make,changes,message",
    [
        (
            columns,
            [('"thread", 1024', '"thread", 768'), ("32, 32)", "24, 32)")],
            "groups .* are a power of two",
        ),
        (
            columns,
            [('"cta", 2', '"cta", 3'), ("(2, 32", "(3, 32")],
            "blocks of 32 x 32 threads are 2; write Mesh",
        ),
        (elements, [("N * 3", "N * 4")], "blocks of 1 x 256 threads are"),
        (windows, [('"thread", 256', '"thread", 48'), ("256)", "48)")], "a block is whole warps"),
    ],
    ids=["groups", "columns", "elements", "warps"],
)
@pytest.mark.spec("placement.open-scopes")
def test_other_forms_are_refused_likewise(make, changes, message):
    with pytest.raises(NotFollowed, match=message):
        lower(
            edited(make(200 if make is columns else 4104 if make is elements else 96), *changes), target=H200
        )


@pytest.mark.spec("placement.open-scopes")
def test_a_product_has_the_threads_of_its_tier():
    p = Program("product")
    program = p.done(p("matmul", p.param("x", (N, 64), "bf16"), p.param("w", (64, 64), "bf16")))
    fewer = edited(program, ('"cta", (N + 63) // 64', '"cta", 5'), ("((N + 63) // 64, 288", "(5, 288"))
    assert launches(fewer) == [(5, 288)], "blocks take tiles in turn"
    with pytest.raises(NotFollowed, match="computed by blocks of 288 threads; write Mesh"):
        lower(edited(program, ('"thread", 288', '"thread", 256'), ("288)", "256)")), target=H200)


@pytest.mark.spec("placement.open-scopes")
def test_ops_that_are_no_kernel_together_are_refused():
    @func(topologies=(Topology("cta", 4), Topology("thread", 256)))
    def both(x: Tensor[(64, 64), "f32"]) -> Tensor[(64, 64), "f32"]:
        with Mesh(("cta", "thread"), (4, 256), ("b", "t")) as m:  # noqa: F841
            y = tf.reduce(x, axes=(0,), kind="sum")
            z = tf.reduce(x * y, axes=(1,), kind="sum") * x
        return z

    with pytest.raises(ValueError, match="do not share one loop nest; let the placement pass split them"):
        lower(both, target=H200)


@pytest.mark.spec("placement.open-scopes")
def test_a_scope_over_other_levels_is_refused():
    @func(topologies=(Topology("thread", 256),))
    def alone(x: Tensor[(64, 64), "f32"]) -> Tensor[(64, 64), "f32"]:
        with Mesh(("thread",), (256,), ("t",)) as m:  # noqa: F841
            y = tf.exp(x)
        return y

    with pytest.raises(NotFollowed, match="a mesh of the levels cta and thread"):
        lower(alone, target=H200)
