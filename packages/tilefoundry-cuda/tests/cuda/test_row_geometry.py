"""How rows are dealt out. Oracle: counting elements, threads and bytes by hand."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilefoundry import CompilerOptions, lower
from tilefoundry.codegen.cuda import BACKEND
from tilefoundry.codegen.cuda.schedule.geometry import pack_width, reduced_geometry, streaming_geometry
from tilefoundry.ir.types import DimVar
from tilefoundry.target import CudaTarget

from ..cpu.harness import Program

SHARED = 228 * 1024
"""Bytes of shared memory of a multiprocessor; a block takes a KiB beside its own."""

extents = st.one_of(st.integers(1, 300), st.integers(1, 200_000), st.integers(1, 25_000).map(lambda n: n * 8))
sizes = st.lists(st.sampled_from((1, 2, 4, 8)), min_size=1, max_size=3)


@given(extents, st.integers(1, 200_000), sizes, st.integers(1, 3))
@example(16400, 1, [1], 1)
@example(32768, 1, [1], 1)
def test_the_threads_of_a_block_hold_all_of_a_row(extent, rows, item_sizes, joins):
    width = pack_width(item_sizes, extent)
    assert extent % width == 0 and width * max(item_sizes) <= 16
    kept = sum(item_sizes)
    chosen = reduced_geometry(extent, rows, width, kept, joins)
    assert 1 <= chosen.threads * chosen.rows <= 1024
    assert chosen.threads % 32 == 0 or chosen.threads in (1, 2, 4, 8, 16)
    if chosen.elements is not None:
        assert chosen.elements % width == 0 and chosen.tile >= extent
        assert chosen.staged or chosen.elements <= 64
    if chosen.staged:
        assert chosen.rows == 1 and 2 * (chosen.tile * kept + 1024) <= SHARED


@pytest.mark.parametrize("joins,form", [(1, (16, 16, 8)), (2, (8, 32, 16))])
def test_threads_that_meet_twice_take_two_packs_of_a_short_row(joins, form):
    # Oracle: the fastest of seven forms on an H200, 131072 rows of 128 bf16.
    chosen = reduced_geometry(128, 131072, 8, 0, joins)
    assert (chosen.threads, chosen.rows, chosen.elements) == form


@given(extents, st.integers(1, 200_000))
def test_a_row_stays_in_shared_memory_only_where_passes_share_it(extent, rows):
    assert not reduced_geometry(extent, rows, pack_width([2], extent), 0).staged


@given(extents, st.integers(1, 200_000), sizes)
def test_streamed_tiles_are_packs_of_whole_blocks(extent, rows, item_sizes):
    width = pack_width(item_sizes, extent)
    chosen = streaming_geometry(extent, rows, width)
    assert chosen.threads * chosen.rows == 256 and chosen.elements % width == 0


def softmax(shape, dtype):
    p = Program("rows")
    return p.done(p("softmax", p.param("x", shape, dtype), axis=-1))


def norm_of_sum(shape, dtype):
    p = Program("rows")
    total = p("add", p.param("x", shape, dtype), p.param("y", shape, dtype))
    return p.done(p("rms_norm", total, p.param("w", shape[-1:], dtype)))


def row_sum(shape, dtype):
    p = Program("rows")
    return p.done(p("reduce", p.param("x", shape, dtype), axes=(1,), keepdim=False, kind="sum"))


@pytest.mark.parametrize(
    ("make", "shape", "dtype", "kib"),
    (
        (softmax, (64, 32768), "bf16", 64),
        (softmax, (64, 32760), "bf16", 64),
        (softmax, (64, 16384), "f32", 64),
        (norm_of_sum, (64, 24576), "bf16", 96),
        (softmax, (64, 65536), "bf16", None),  # more than two blocks of a multiprocessor hold
        (norm_of_sum, (64, 32768), "bf16", None),
        (softmax, (64, 4096), "bf16", None),  # stays in registers
        (softmax, (64, 32769), "bf16", None),  # no pack fits
        (softmax, (64, DimVar("N", 1, 40000)), "bf16", None),
        (row_sum, (64, 32768), "bf16", None),  # one pass reads all
    ),
    ids=lambda value: getattr(value, "__name__", None) or str(value),
)
def test_what_waits_in_shared_memory(make, shape, dtype, kib):
    """The inputs of every row, and not the weights that rows share."""
    target = CudaTarget("nvidia.h200_sxm")
    (text,) = BACKEND.emit(lower(make(shape, dtype), target=target), target, CompilerOptions()).parts.devices
    stated = [line for line in text.splitlines() if "_shared_kib[" in line]
    assert [int(line.split("_shared_kib[")[1].split("]")[0]) for line in stated] == ([kib] if kib else [])
    assert ("StagedPacks" in text) == (kib is not None)
