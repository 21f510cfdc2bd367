"""Placed kernels say which thread holds what, and do as they say. Oracle: layouts written by hand, the evaluator."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import jit, lower
from tilefoundry.codegen import place
from tilefoundry.codegen.cuda.authored import NotFollowed
from tilefoundry.evaluator import evaluate
from tilefoundry.inspection import as_script
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir import Launch, PrimFunction, walk_tir
from tilefoundry.ir.types import DimVar

from ..cpu.harness import Program, assert_close
from ..placed_text import H200, read_back, same_code, source_of
from .emulating import emulate

N, M = DimVar("N", 1, 300), DimVar("M", 1, 300)
TORCH = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}


def norm(shape: tuple[object, ...], dtype: str = "f32") -> Function:
    p = Program("norm")
    return p.done(p("rms_norm", p.param("x", shape, dtype), p.param("w", shape[-1:], dtype)))


def residual(extent: int, dtype: str) -> Function:
    """Two results with an element at every place, one of which the other is computed from."""
    p = Program("residual")
    x, y = p.param("x", (N, extent), dtype), p.param("y", (N, extent), dtype)
    total = p("add", x, y)
    weight, bias = p.param("w", (extent,), dtype), p.param("b", (extent,), dtype)
    return p.done(p("layer_norm", total, weight, bias), total)


def scaled(shape: tuple[object, ...]) -> Function:
    """A result per row, and an operand per row."""
    p = Program("scaled")
    x, gain = p.param("x", shape), p.param("gain", (*shape[:-1], 1))
    top = p("reduce", x, axes=(len(shape) - 1,), keepdim=True, kind="absmax")
    return p.done(p("mul", p("div", x, p("add", top, p("exp", gain))), gain), top)


def gate(shape: tuple[object, ...], dtype: str = "f32") -> Function:
    p = Program("gate")
    return p.done(p("mul", p("silu", p.param("g", shape, dtype)), p.param("u", shape, dtype)))


def biased(shape: tuple[object, ...], dtype: str = "f32") -> Function:
    p = Program("biased")
    return p.done(p("exp", p("add", p.param("x", shape, dtype), p.param("b", shape[-1:], dtype))))


def layouts(program: Function) -> list[str]:
    """What the placed program's text reshards to."""
    lines = as_script(place(program, target=H200)).splitlines()
    return [line.split("layout=")[1].rstrip(")") for line in lines if "tf.reshard" in line]


FORMS = {
    "a row of a block": (norm((N, 4096), "bf16"), "(N @ m.block, 2, 256 @ m.lane, 8)"),
    "rows of two axes": (norm((2, N, 4096), "bf16"), "(2 @ m.block0, N @ m.block1, 2, 256 @ m.lane, 8)"),
    "rows of a block": (norm((4096, 128), "bf16"), "(256 @ m.block, 16 @ m.row, 16 @ m.lane, 8)"),
    "elements": (gate((512, 1024)), "(512 @ m.block, 256 @ m.lane, 4)"),
    "tiles of rows": (biased((N, 4096), "f16"), "(N @ m.block, 2 @ m.tile, 256 @ m.lane, 8)"),
    "one block": (gate((1, 1, 2048), "f16"), "(256 @ m.lane, 8)"),
}


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.spec("placement.layouts")
def test_known_forms_say_their_layouts(name):
    program, layout = FORMS[name]
    first, *_, last = layouts(program)
    assert first == f'{layout}, storage="rmem"'
    assert last == f'{layout}, storage="gmem"'


CUT = {
    "any number of rows": (norm((N, 384)), ["tile(N, 8, over=m.block)"], "(8 @ m.row, 3, 32 @ m.lane, 4)"),
    "rows with a remainder": (
        norm((N, 4100)),
        ["tile(4100, 4224)"],
        "(N @ m.block, 3, 352 @ m.lane, 4)",
    ),
    "both": (
        norm((N, 1000)),
        ["tile(N, 2, over=m.block)", "tile(1000, 1024)"],
        "(2 @ m.row, 2, 128 @ m.lane, 4)",
    ),
    "any number of elements": (gate((N, M)), ["tile(M * N, 1024, over=m.block)"], "(256 @ m.lane, 4)"),
    "any length": (biased((N, M)), ["tile(M, 1024, over=m.tile)"], "(N @ m.block, 256 @ m.lane, 4)"),
}
"""Program, its loops over tiles, and the layout of a tile, which may be cut."""


@pytest.mark.parametrize("name", CUT)
@pytest.mark.spec("placement.layouts")
def test_what_an_edge_may_cut_is_said_by_tiles(name):
    program, loops, layout = CUT[name]
    text = as_script(place(program, target=H200))
    assert [line.split(" in ")[1].rstrip(":") for line in text.splitlines() if " in tile" in line] == loops
    assert layouts(program)[0] == f'{layout}, storage="rmem"'


OPEN = {
    "rows in shared memory": norm((64, 32768), "bf16"),
    "rows of any length": norm((N, M)),
    "rows of two axes in blocks across both": norm((N, 3, 128)),
}


@pytest.mark.parametrize("name", OPEN)
@pytest.mark.spec("placement.layouts")
def test_other_forms_stay_open(name):
    assert layouts(OPEN[name]) == []


PROGRAMS = {
    **{f"norm {dtype}": norm((N, 4096), dtype) for dtype in TORCH},
    "short rows": norm((32, 128), "bf16"),
    "residual": residual(4096, "f32"),
    "scaled": scaled((N, 2, 4096)),
    "short scaled": scaled((4, 16, 128)),
    "gate": gate((16, 1024), "bf16"),
    "biased": biased((N, 4096), "f16"),
    "cut rows": scaled((N, 384)),
    "cut both": residual(1000, "f32"),
    "cut elements": gate((N, 24)),
    "cut tiles": biased((N, 4104), "f16"),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.spec("placement.layouts")
def test_layouts_read_back(name):
    assert "reshard" in same_code(PROGRAMS[name], H200)


def edited(program: Function, *changes: tuple[str, str]) -> object:
    """The placed program with ``changes`` in its text."""
    placed = place(program, target=H200)
    text = as_script(placed)
    for old, new in changes:
        assert old in text, text
        text = text.replace(old, new)
    return read_back(text, placed.name)


HALF = (('"thread", 256', '"thread", 128'), ("256), (", "128), ("))
EDITS = {
    "half the threads": (norm((N, 4096), "bf16"), [*HALF, ("2, 256 @ m.lane", "4, 128 @ m.lane")], True),
    "neighbouring packs": (norm((N, 4096), "bf16"), [("2, 256 @ m.lane", "256 @ m.lane, 2")], False),
    "smaller packs": (norm((N, 4096), "bf16"), [("2, 256 @ m.lane, 8", "4, 256 @ m.lane, 4")], False),
    "elements of fewer threads": (gate((16, 1024)), [*HALF, ("256 @ m.lane", "2, 128 @ m.lane")], True),
    "elements in turn": (gate((16, 1024)), [("256 @ m.lane, 4", "4, 256 @ m.lane")], False),
    "half the rows of a block": (
        scaled((N, 384)),
        [
            ('"thread", 256', '"thread", 128'),
            ("(N + 7) // 8", "(N + 3) // 4"),
            ("8, 32), (", "4, 32), ("),
            ("tile(N, 8,", "tile(N, 4,"),
            ("8 @ m.row", "4 @ m.row"),
        ],
        True,
    ),
    "another name": (norm((N, 4096), "bf16"), [("x_own", "mine"), (") as m", ") as n"), ("m.", "n.")], True),
}
"""Program, edit, and whether the schedule for the mesh does as the edited layouts say."""


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.spec("placement.layouts")
def test_edited_layouts_are_the_code(name):
    """Oracle: packs of a row are the schedule's alone; numbers of threads are those of the text."""
    program, changes, scheduled = EDITS[name]
    other = edited(program, *changes)
    source = source_of(other, H200)
    assert source != source_of(program, H200)
    assert ("piece_" in source) == scheduled
    host = lower(other, target=H200).entry_function()
    assert isinstance(host, PrimFunction)
    threads = 128 if HALF[0] in changes else 256
    assert [stmt.block for stmt in walk_tir(host.body) if isinstance(stmt, Launch)] == [(threads,)]


@pytest.mark.spec("placement.layouts")
def test_names_of_loops_and_tiles_are_free():
    """Oracle: the source of the program itself."""
    program = residual(1000, "f32")
    other = edited(
        program, ("j.", "k."), ("for j", "for k"), ("x_tile", "part"), ("(i.", "(n."), ("for i", "for n")
    )
    assert source_of(other, H200) == source_of(program, H200)


@pytest.mark.spec("placement.layouts")
def test_a_layout_of_another_size_is_refused_where_it_is_written():
    with pytest.raises(Exception, match=r"has N \* 6144 elements, the tensor \(N, 4096\) has N \* 4096"):
        edited(norm((N, 4096), "bf16"), ("2, 256 @ m.lane", "3, 256 @ m.lane"))


@pytest.mark.parametrize("name", ["cut rows", "cut both", "cut elements", "short scaled"])
@pytest.mark.spec("placement.layouts")
def test_placed_programs_evaluate_and_run_elsewhere_too(name):
    """Oracle: the evaluator on the program as it was written."""
    placed = place(PROGRAMS[name], target=H200)
    check(PROGRAMS[name], lambda *tensors: evaluate(placed.entry_function(), *tensors), 5, 0)
    check(PROGRAMS[name], jit(placed, target="cpu"), 5, 0)


@pytest.mark.spec("placement.layouts")
def test_a_layout_that_cannot_be_followed_is_refused_with_those_that_fit():
    """Oracle: the layouts that were chosen."""
    wrong = edited(norm((N, 8192), "bf16"), ("2, 512 @ m.lane, 8", "8192"))
    fits = r"; over .* fit x as \(N@block, 2, 512@lane, 8\), v0 as \(N@block, 2, 512@lane, 8\)"
    with pytest.raises(NotFollowed, match=f"an instance would hold 8192 elements.*{fits}"):
        lower(wrong, target=H200)


@pytest.mark.spec("placement.layouts")
def test_a_mesh_that_does_not_suit_is_named_beside_one_that_does():
    wrong = edited(norm((N, 8192), "bf16"), ("2, 512 @ m.lane, 8", "8192"), ("512", "32"))
    with pytest.raises(
        NotFollowed, match=r"; over .*lane=512\), in place of .*lane=32\), fit x as .*512@lane"
    ):
        lower(wrong, target=H200)


CAST = '            wide = tf.cast(x_own, dtype="f32")\n'
WASTE = '            waste = tf.reshard(x, layout=(N @ m.block, 8192), storage="rmem")\n'


@pytest.mark.spec("placement.layouts")
@pytest.mark.parametrize(
    ("program", "change", "message"),
    [
        (
            norm((N, 8192), "bf16"),
            (CAST, WASTE + CAST.replace("x_own", "waste")),
            r"with these layouts wide = tf\.cast\(x_own, .* fits in place of waste = tf\.reshard\(x, ",
        ),
        (
            scaled((N, 1000)),
            ("tile(1000, 1024)", "tile(1000, 1024, over=m.row)"),
            r"with these layouts the loop over tile\(1000, 1024\) fits in place of .* m\.row takes turns at$",
        ),
    ],
    ids=["step", "loop"],
)
def test_where_the_layouts_are_right_the_step_that_differs_is_named(program, change, message):
    """Oracle: the one line of the program that was edited; its own layouts are no remedy."""
    with pytest.raises(NotFollowed, match=message) as caught:
        lower(edited(program, change), target=H200)
    assert " fit x as " not in str(caught.value)


def on_gpu(program: object) -> object:
    """A callable on CPU tensors that computes on the current GPU; operands keep their offset."""
    compiled = jit(program, target="cuda")

    def run(*tensors: torch.Tensor):
        moved = [t._base.cuda()[t.storage_offset() :].view(t.shape) for t in tensors]  # type: ignore[union-attr]  # views
        results = compiled(*moved)
        return tuple(r.cpu() for r in (results if isinstance(results, tuple) else (results,)))

    return run


RUNNERS = [
    pytest.param(emulate, id="emulated", marks=[pytest.mark.slow, pytest.mark.emulated]),
    pytest.param(on_gpu, id="gpu", marks=pytest.mark.gpu),
]


def check(program: Function, compiled, count: int, offset: int) -> None:
    """Oracle: the evaluator on the program as it was written."""
    tensors = []
    for i, param in enumerate(program.params):
        shape = [count if extent == N else extent for extent in param.type.shape]
        flat = torch.randn(torch.Size(shape).numel() + offset, generator=torch.Generator().manual_seed(i))
        tensors.append(flat.to(TORCH[param.type.dtype.name])[offset:].view(shape))
    got, want = compiled(*tensors), evaluate(program, *tensors)
    pairs = zip(*(one if isinstance(one, tuple) else (one,) for one in (got, want)), strict=True)
    for one, other in pairs:
        assert_close(one, other, 4096, f"{program.name} at {offset}", 1e-30)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.spec("placement.layouts")
def test_values_also_at_odd_offsets(name, runner):
    compiled = runner(PROGRAMS[name])
    for offset, count in ((0, 5), (1, 3)):
        check(PROGRAMS[name], compiled, count, offset)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("name", EDITS)
@pytest.mark.spec("placement.layouts")
def test_edited_layouts_compute_the_same(name, runner):
    program, changes, _ = EDITS[name]
    compiled = runner(edited(program, *changes))
    for offset, count in ((0, 5), (3, 1)):
        check(program, compiled, count, offset)
