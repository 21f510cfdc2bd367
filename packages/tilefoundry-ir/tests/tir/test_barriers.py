"""Barriers of participant sets. Oracle: the sets by enumeration, and the stated mapping."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilefoundry.dsl import DimVar, Mesh, T, Tensor, Topology, prim_func
from tilefoundry.ir.errors import DslError, UnsupportedError, VerificationError
from tilefoundry.ir.tir import Barrier, BarrierKind, barriers, classify_sync
from tilefoundry.ir.types.shard import Layout, participants

CTA, THREAD = Topology("cta", 8), Topology("thread", 128)
LEVELS = (CTA, THREAD)
WARPS = Mesh(("thread",), (4, 32), ("w", "t"))
BOTH = Mesh(("cta", "thread"), (8, 4, 32), ("b", "w", "t"))


@pytest.mark.spec("tir.sync")
@pytest.mark.parametrize(
    ("mesh", "barrier"),
    [
        (Mesh(("cta",), (8,), ("b",)), Barrier(BarrierKind.GRID)),
        (Mesh(("cta",), (2, 4), ("a", "b")), Barrier(BarrierKind.GRID)),
        (BOTH, Barrier(BarrierKind.GRID)),
        (BOTH[0:8, 0:4, 0:32], Barrier(BarrierKind.GRID)),
        (WARPS, Barrier(BarrierKind.BLOCK, 0, 128)),
        (Mesh(("thread",), (128,), ("t",)), Barrier(BarrierKind.BLOCK, 0, 128)),
        (WARPS[0:2], Barrier(BarrierKind.NAMED, 0, 64)),
        (WARPS[1:4], Barrier(BarrierKind.NAMED, 32, 96)),
        (WARPS[2], Barrier(BarrierKind.LANES, 64, 32, 0xFFFFFFFF)),
        (WARPS[1, 4:8], Barrier(BarrierKind.LANES, 32, 4, 0xF0)),
        (WARPS[3, 31], Barrier(BarrierKind.LANES, 96, 1, 0x80000000)),
        # Lanes that are no interval: every fourth one.
        (
            Mesh(("thread",), (4, 8, 4), ("w", "r", "c"))[0, :, 1],
            Barrier(BarrierKind.LANES, 0, 8, 0x22222222),
        ),
        # The first axis is the fast one: the first half of its warps' lanes are threads 0 to 63.
        (Mesh(("thread",), Layout((32, 4), (1, 32)), ("t", "w"))[:, 0:2], Barrier(BarrierKind.NAMED, 0, 64)),
    ],
)
def test_each_set_has_its_barrier(mesh, barrier):
    assert classify_sync(mesh, LEVELS) == barrier


def _waiting(entry: tuple[str, int, int, int, int], size: int) -> set[int]:
    """The threads of a block that the runtime's ``ops::sync`` makes wait, as its comment states."""
    kind, base, count, mask, number = entry
    if kind == "lanes":
        return {base + lane for lane in range(32) if mask >> lane & 1}
    if kind == "named":
        assert 1 <= number <= 15 and base % 32 == 0 and count % 32 == 0
        return set(range(base, base + count))
    return set(range(size))


@pytest.mark.spec("tir.sync")
@pytest.mark.parametrize(
    "mesh", [WARPS, WARPS[0:2], WARPS[1:4], WARPS[2], WARPS[1, 4:8], WARPS[:, :], WARPS[3, 31]], ids=str
)
def test_the_runtime_is_told_who_waits(mesh):
    levels = (CTA, THREAD)

    @prim_func(topologies=levels)
    def f(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        T.copy(x, y)
        T.sync(mesh)

    (barrier,) = barriers(f.lookup("f"), levels)
    assert _waiting(barrier.entry, 128) == set(participants(mesh.resolved(levels))["thread"])


def test_what_the_runtime_is_told_of_grids_and_of_named_barriers_without_a_number():
    assert classify_sync(BOTH, LEVELS).entry == ("grid", 0, 0, 0, 0)
    with pytest.raises(ValueError, match=r"has no number yet; take it from barriers\(function, levels\)"):
        _ = classify_sync(WARPS[0:2], LEVELS).entry


@pytest.mark.spec("tir.sync")
def test_a_block_of_one_warp_and_a_grid_of_one_cta():
    one = (Topology("cta", 1), Topology("thread", 32))
    warp = Barrier(BarrierKind.WARP, 0, 32, 0xFFFFFFFF)
    assert classify_sync(Mesh(("thread",), (32,), ("t",)), one) == warp
    assert classify_sync(Mesh(("cta",), (1,), ("b",)), one) == warp
    assert classify_sync(Mesh(("cta", "thread"), (1, 32), ("b", "t")), one) == warp
    small = Barrier(BarrierKind.WARP, 0, 16, 0xFFFF)
    assert classify_sync(Mesh(("thread",), (16,), ("t",)), (Topology("thread", 16),)) == small


@pytest.mark.spec("tir.sync")
def test_a_grid_whose_extent_the_launch_gives_has_a_grid_barrier():
    n = DimVar("N", 1, 100)
    levels = (Topology("cta", n), THREAD)
    assert classify_sync(Mesh(("cta",), (n,), ("b",)), levels) == Barrier(BarrierKind.GRID)


@pytest.mark.spec("tir.sync")
@pytest.mark.parametrize(
    ("mesh", "why"),
    [
        (
            WARPS[0:2, 0:16],
            r"threads 0, 1, 2, 3, 4, 5, \.\.\. 47 are neither inside one warp nor an interval",
        ),
        (Mesh(("thread",), (8, 16), ("w", "t"))[1:4], "threads 16, .* are neither inside one warp nor"),
        (Mesh(("cta",), (8,), ("b",))[0:4], "it takes some instances of cta over several CTAs"),
        (BOTH[:, 0:2], "it takes some instances of thread over several CTAs"),
        (Mesh((Topology("warp", 4),), (4,), ("w",)), "the level warp has no barrier"),
    ],
)
def test_other_sets_are_refused(mesh, why):
    with pytest.raises(
        UnsupportedError, match=rf"no barrier serves Mesh\(.*\).*: {why}.*; synchronise the whole cta"
    ):
        classify_sync(mesh, LEVELS)


@pytest.mark.spec("tir.sync")
@given(st.integers(0, 7), st.integers(1, 8), st.integers(0, 15), st.integers(1, 16))
def test_a_barrier_holds_exactly_the_participants(row, rows, column, columns):
    mesh = Mesh(("thread",), (8, 16), ("r", "c"))
    rows, columns = min(rows, 8 - row), min(columns, 16 - column)
    wanted = {16 * r + c for r in range(row, row + rows) for c in range(column, column + columns)}
    try:
        barrier = classify_sync(mesh[row : row + rows, column : column + columns], LEVELS)
    except UnsupportedError:
        assert len({i // 32 for i in wanted}) > 1
        assert wanted != set(range(min(wanted), max(wanted) + 1)) or min(wanted) % 32 or len(wanted) % 32
        return
    if barrier.kind is BarrierKind.LANES:
        held = {barrier.first + lane for lane in range(32) if barrier.mask >> lane & 1}
    else:
        held = set(range(barrier.first, barrier.first + barrier.count))
    assert held == wanted and barrier.count == len(wanted)


@pytest.mark.spec("tir.sync")
def test_named_barriers_are_numbered_by_site_and_run_out_after_fifteen():
    @prim_func(topologies=LEVELS)
    def f(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        with Mesh(("thread",), (4, 32), ("w", "t")) as m:
            T.sync(m[0:2])
            T.sync(m)
            for i in range(4):
                T.sync(m[0:2])
                y[i] = x[i]
            T.sync(m[2:4])

    found = barriers(f.lookup("f"), f.topologies)
    assert [(b.kind.value, b.number) for b in found] == [
        ("named", 1),
        ("block", None),
        ("named", 2),
        ("named", 3),
    ]

    @prim_func(topologies=LEVELS)
    def g(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
        T.copy(x, y)
        with Mesh(("thread",), (4, 32), ("w", "t")) as m:
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])
            T.sync(m[0:2])

    with pytest.raises(
        VerificationError, match="g: 16 syncs need a named barrier, a block has 15; synchronise"
    ):
        barriers(g.lookup("g"), g.topologies)


@pytest.mark.spec("tir.sync")
def test_a_set_without_barrier_is_refused_where_it_is_written():
    with pytest.raises(DslError, match=r"no barrier serves (.|\n)*T\.sync\(m\[0:2, 0:16\]\)"):

        @prim_func(topologies=LEVELS)
        def f(x: Tensor[(4,), "f32"], y: Tensor[(4,), "f32"]):
            with Mesh(("thread",), (4, 32), ("w", "t")) as m:
                T.sync(m[0:2, 0:16])
