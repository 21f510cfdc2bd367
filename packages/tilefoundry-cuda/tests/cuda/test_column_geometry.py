"""Blocks of reductions over outer axes. Oracles: counting threads by hand; the evaluator on an emulated block."""

from __future__ import annotations

import pytest

from tilefoundry import func
from tilefoundry.codegen import explain
from tilefoundry.dsl import DimVar, Tensor, tf

from ..cpu.harness import Program, compare, random_tensor
from ..placed_text import H200
from .emulating import run_emulated
from .runners import computing_with

N = DimVar("N", 1, 10_000_000)


@func
def thin(x: Tensor[(1048576, 64), "bf16"]) -> Tensor[(64,), "bf16"]:
    return tf.reduce(x, axes=(0,), keepdim=False, kind="sum")


@func
def open_rows(x: Tensor[(N, 64), "bf16"]) -> Tensor[(64,), "bf16"]:
    return tf.reduce(x, axes=(0,), keepdim=False, kind="max")


@func
def broad(x: Tensor[(8192, 65536), "bf16"]) -> Tensor[(65536,), "bf16"]:
    return tf.reduce(x, axes=(0,), keepdim=False, kind="max")


@func
def short(x: Tensor[(48, 64), "f32"]) -> Tensor[(64,), "f32"]:
    return tf.reduce(x, axes=(0,), keepdim=False, kind="max")


@pytest.mark.parametrize(
    ("program", "meshes"),
    [
        # 64 sums of 4 elements a pack are 16 lanes; the second step has 512 rows for one block of 64 groups.
        (thin, ["block=512, group=16, lane=16", "block=1, group=64, lane=16"]),
        # 8 packs; one block for all rows has all the threads that a block may have.
        (open_rows, ["block=1, group=128, lane=8"]),
        # Columns enough for 256 blocks of 32 lanes.
        (broad, ["block=256, group=8, lane=32"]),
        # 48 rows would give 64 groups less than a row each.
        (short, ["block=1, group=16, lane=16"]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_lanes_have_columns_and_groups_have_rows(program, meshes):
    shown = str(explain(program, target=H200))
    assert [line.split("thread: ")[1].rstrip(")") for line in shown.splitlines() if "Mesh(" in line] == meshes


@pytest.mark.slow
@pytest.mark.emulated
def test_columns_of_every_count_of_lanes_equal_the_evaluator():
    """1 to 32 lanes, whole packs and single elements, small blocks and large ones, rows that are no multiple."""
    programs = []
    sizes = (("f32", 1, 1100), ("bf16", 24, 3000), ("f32", 64, 1030), ("bf16", 100, 301), ("bf16", 264, 513))
    for dtype, columns, rows in sizes:
        program = Program(f"columns_{columns}_{dtype}")
        x = program.param("x", (rows, columns), dtype)
        function = program.done(program("reduce", x, axes=(0,), keepdim=False, kind="sum"))
        programs.append((function, [random_tensor((rows, columns), dtype, columns)]))
    with computing_with(run_emulated):
        compare(programs, length=3000)
