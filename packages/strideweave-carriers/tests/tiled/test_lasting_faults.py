"""A provider that fails and goes on failing: not even undoing works. Oracle: every tile's value before."""

from __future__ import annotations

import itertools
from contextlib import contextmanager

import pytest
from expert_tiles import choose, tiles

import strideweave as sw
from strideweave import seam
from strideweave.testing import Fault

WHOLE = choose(0, 1, 2, 3, 4, 5)


@contextmanager
def fail_from(n):
    """Within it the n-th provider call, counted from 1, and all after it fail; what was counted."""
    calls = itertools.count(1)
    seen = [0]

    def hook(kind):
        seen[0] = next(calls)
        if seen[0] >= n:
            raise Fault(f"provider call {seen[0]}, {kind}")

    before = seam.install(hook)
    try:
        yield seen
    finally:
        seam.install(before)


REQUESTS = {
    "promote": lambda made: made.carrier.promote(tiles(3, 5)),
    "evict": lambda made: made.carrier.evict(tiles(0, 1, 2)),
    "project": lambda made: made.carrier.project(made.tensor, choose(5, 0, 3)).wait(),
    "project, tile order": lambda made: made.carrier.project(made.tensor, WHOLE, order="tile").wait(),
    "scatter": lambda made: made.carrier.scatter(made.piece, made.tensor, choose(4, 0, 3), "add").wait(),
    "operation": lambda made: sw.relu(made.tensor),
    "hold": lambda made: made.carrier.hold(tiles(4)).__enter__().__exit__(),
    "read": lambda made: [made.carrier.get_value(i) for i in range(0, 36, 6)],
    "backward": lambda made: made.root.backward(made.ones, retain_graph=True),
}
WRITES = {
    "update": lambda made: made.carrier.update(choose(0, 3), made.pair).wait(),
    "update, add": lambda made: made.carrier.update(choose(4), made.one, "add").wait(),
    "set_value": lambda made: made.carrier.set_value(35, -1.0),
}


def prepare(tiled, capacity):
    """Six experts of which two or three are on primary, some of them dirty."""
    made = tiled.make(grid=(6, 1, 1), primary_capacity=capacity)
    made.piece, made.pair, made.one = sw.ones((3, 3, 2)), sw.ones((2, 3, 2)), sw.ones((1, 3, 2))
    made.carrier.promote(tiles(2))
    made.carrier.set_value(0, 50.0)
    made.carrier.set_value(6, 60.0)
    made.root = sw.relu(made.tensor)
    made.ones = sw.Tensor(sw.CPU(36).new_like([1.0] * 36), 0, sw.Layout(made.root.shape))
    made.carrier.evict(tiles(3, 4, 5))
    return made


def values(made):
    return [made.carrier.get_value(i) for i in range(36)]


@pytest.mark.spec("TRN.failed", "LIFE.failure")
@pytest.mark.parametrize("capacity", [2, 3, 6])
@pytest.mark.parametrize("name", [*REQUESTS, *WRITES])
def test_no_value_is_lost_and_the_carrier_goes_on(tiled, name, capacity):
    request = (REQUESTS | WRITES)[name]
    for n in range(1, 60):
        made = prepare(tiled, capacity)
        before = values(made)
        with fail_from(n) as seen:
            try:
                request(made)
                failed = False
            except Fault:
                failed = True
            made.carrier.wait_idle()
        core = made.carrier._core
        if failed or name in REQUESTS:
            assert values(made) == before
        assert not any(r.needed() or r.transit or r.claim for r in core.table.touched())
        assert core.primary.used == len(made.carrier.primary_tiles) <= capacity
        request(made)
        made.carrier.evict(made.carrier.primary_tiles)
        assert core.primary.used == 0
        if name in REQUESTS:
            assert values(made) == before
        made.carrier.release()
        if seen[0] < n:
            break
    assert seen[0] < n, "more provider calls than were tried"
    assert n > 1 or name == "read"
