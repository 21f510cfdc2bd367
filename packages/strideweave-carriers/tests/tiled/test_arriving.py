"""Projections of missing tiles that nothing stands in the way of, against the way that everything can take.

Oracle: an equal carrier that is made to take the general way. Compared are what can be seen and what is kept under the
lock, while the copies are held up, after them, and after each fault.
"""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from itertools import pairwise
from unittest import mock

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet, arriving, projecting
from strideweave.carriers.tiled_evictable.strips import runs_of, strips
from strideweave.movement.completion import Completion
from strideweave.testing.faults import Fault, fail_at, gated

TILES, TILE = 8, 6


@contextmanager
def general_way():
    """Within it every projection that is no single gather takes the general way."""
    with mock.patch.object(projecting, "project_arriving", lambda *_: None):
        yield


def make(capacity: int, history: list[tuple[str, tuple[int, ...]]]) -> TiledEvictable:
    """A carrier to which the promotions, evictions, projections and writes of ``history`` have happened."""
    secondary = sw.CPU(TILES * TILE)
    secondary.flat().copy_(torch.arange(float(TILES * TILE)))
    carrier = TiledEvictable(sw.CPU(0), secondary, (TILES,), (TILE,), primary_capacity=capacity)
    carrier.promote(TileSet([(0,)]))
    for verb, codes in history:
        some = codes[:capacity]
        if verb == "write":
            carrier.set_value(some[0] * TILE, 100.0 + some[0])
        elif verb == "project":
            carrier.project(carrier.full_tensor(), TileSelection([codes])).wait()
        else:
            getattr(carrier, verb)(TileSet((c,) for c in some))
    carrier.wait_idle()
    return carrier


def seen(carrier: TiledEvictable) -> dict[str, object]:
    """What two carriers that have come the same way agree on; where tiles lie within a tier is nobody's business."""
    core = carrier._core
    with core.lock:
        table = core.table
        records = [table.peek(code) for code in range(TILES)]
        found = {
            "states": [r.state() for r in records],
            "needed": [r.needed() for r in records],
            "moving": [r.transit is not None for r in records],
            "claimed": [r.claim is not None for r in records],
            "recent": [r.code for r in table.least_recent() if r.primary is not None],
            "used": (core.primary.used, core.secondary.used, core.primary.available()),
        }
    stats = carrier.stats()
    found["counts"] = stats.requests, stats.hits, stats.misses, stats.bytes_promoted, stats.bytes_streamed
    found["busy"], found["readers"], found["version"] = core.busy(), len(carrier._readers), carrier.version
    return found


CODES = st.lists(st.integers(0, TILES - 1), min_size=1, max_size=TILES, unique=True).map(tuple)
HISTORY = st.lists(st.tuples(st.sampled_from(["promote", "evict", "project", "write"]), CODES), max_size=4)


@settings(max_examples=60, deadline=None)
@given(HISTORY, CODES, st.integers(1, TILES), st.sampled_from(["tile", "canonical"]))
def test_both_ways_leave_the_same(history, codes, capacity, order):
    mine, other = make(capacity, history), make(capacity, history)
    assert seen(mine) == seen(other)
    selection = TileSelection([codes])
    with gated("copy"):
        handle = mine.project(mine.full_tensor(), selection, order=order)
        with general_way():
            expected = other.project(other.full_tensor(), selection, order=order)
        if not (handle.done or expected.done):
            held, wanted = seen(mine), seen(other)
            # What need not be brought may be gathered already.
            assert held == wanted
    got, wanted = handle.wait(), expected.wait()
    assert got.tolist() == wanted.tolist() and got.layout == wanted.layout
    assert got.carrier.version == wanted.carrier.version
    mine.wait_idle()
    other.wait_idle()
    assert seen(mine) == seen(other)


@settings(max_examples=25, deadline=None)
@given(HISTORY, CODES, st.integers(1, TILES), st.integers(1, 5))
def test_both_ways_fail_alike(history, codes, capacity, n):
    """A fault leaves the carrier as it was but for what counts requests; a retry gives the values."""
    mine, other = make(capacity, history), make(capacity, history)
    for carrier, way in ((mine, None), (other, general_way())):
        before = seen(carrier)
        with fail_at(n) as counter:
            if way is not None:
                way.__enter__()
            try:
                carrier.project(carrier.full_tensor(), TileSelection([codes])).wait()
                failed = False
            except Fault:
                failed = True
            finally:
                if way is not None:
                    way.__exit__(None, None, None)
        carrier.wait_idle()
        assert failed == counter.fired
        after = seen(carrier)
        # Tiles that came before the gather failed may stay; nothing else may be left behind.
        assert unmoved(after) == unmoved(before)
        assert after["used"][0] == sum(s.location in ("primary", "both") for s in after["states"])
        wanted = [v for c in codes for v in values(carrier, c)]
        assert carrier.project(carrier.full_tensor(), TileSelection([codes])).wait().tolist() == wanted


def unmoved(found: dict[str, object]) -> list[object]:
    """What a failed projection may not change."""
    kept = [found[k] for k in ("needed", "moving", "claimed", "busy", "readers", "version")]
    return [*kept, [s.valid for s in found["states"]]]


def values(carrier: TiledEvictable, code: int) -> list[object]:
    """A tile's values, slot by slot."""
    return [carrier.get_value(code * TILE + i) for i in range(TILE)]


def test_an_ordinary_miss_takes_the_short_way():
    """Room, clean victims and some hits are ordinary; a dirty victim, a policy and a tile on its way are not."""
    taken = []

    def spy(*arguments):
        handle = arriving.project_arriving(*arguments)
        taken.append(handle is not None)
        return handle

    with mock.patch.object(projecting, "project_arriving", spy):
        carrier = make(4, [])
        full = carrier.full_tensor()
        for codes in ([1, 2], [1, 3], [5, 6, 7], [0, 5]):
            carrier.project(full, TileSelection([codes])).wait()
        assert taken == [True, True, True, True]
        carrier.set_value(1 * TILE, 5.0)
        for k in (2, 3, 4):
            carrier.set_value(k * TILE, 5.0)
        taken.clear()
        carrier.project(full, TileSelection([[6, 7]])).wait()
        assert taken == [False]
        with gated("copy"):
            first = carrier.project(full, TileSelection([[0]]))
            second = carrier.project(full, TileSelection([[0, 5]]))
        assert first.wait().tolist() == values(carrier, 0)
        assert second.wait().tolist() == values(carrier, 0) + values(carrier, 5)


def test_a_write_is_refused_until_the_projection_is_published():
    carrier = make(8, [])
    with gated("copy"):
        handle = carrier.project(carrier.full_tensor(), TileSelection([[3, 4]]))
        with pytest.raises(RuntimeError, match="set_value"):
            carrier.set_value(7 * TILE, 1.0)
        with pytest.raises(RuntimeError, match="release"):
            carrier.release()
    handle.wait()
    handle.wait()
    carrier.set_value(7 * TILE, 1.0)
    carrier.release()


@given(
    st.lists(st.integers(0, 40), min_size=1, max_size=20, unique=True),
    st.randoms(use_true_random=False),
    st.integers(1, 5),
)
def test_runs_move_every_tile_once_and_neighbours_together(places, rng, size):
    """Some targets follow their sources, so that some tiles move together."""
    targets = [p if rng.random() < 0.6 else p + 64 for p in places]
    runs = runs_of(strips(places, targets), size)
    moved = {at + k: to + k for at, to, nbytes in runs for k in range(nbytes)}
    assert moved == {
        p * size + k: t * size + k for p, t in zip(places, targets, strict=True) for k in range(size)
    }
    assert sum(nbytes for _, _, nbytes in runs) == size * len(places)
    assert all(b[0] > a[0] and (a[0] + a[2], a[1] + a[2]) != (b[0], b[1]) for a, b in pairwise(runs))


def test_a_thread_helps_until_it_has_what_it_needs():
    """Oracle: the parts in order, none after the one that made it enough, none once settled."""
    done, calls = Completion(), []

    class Part:
        def __init__(self, name):
            self.name = name

        def help(self):
            calls.append(self.name)

        def look(self):
            return None

        def hurry(self):
            return None

    for name in "abcd":
        done.assist(Part(name))
    done.help_until(lambda: "b" in calls)
    assert calls == ["a", "b"]
    done.help_until(lambda: True)
    assert calls == ["a", "b"]
    done.help_until(lambda: False)
    assert calls == ["a", "b", "c", "d"]
    done.resolve(None)
    done.help_until(lambda: False)
    assert done.result() is None


def test_an_interrupt_while_room_is_found_does_not_fail_the_request():
    """Ctrl-C comes to whoever waits, once; the values come to whoever waits again. Oracle: the tiles' values."""
    carrier = make(8, [])
    mover = type(carrier._core.mover)
    found, real, calls = signal.signal(signal.SIGINT, signal.default_int_handler), mover.compact, []

    def compact(*arguments):
        calls.append(None)
        signal.raise_signal(signal.SIGINT)
        return real(*arguments)

    try:
        with mock.patch.object(mover, "compact", compact):
            with gated("copy") as gate:
                handle = carrier.project(carrier.full_tensor(), TileSelection([[3, 4]]))
                with pytest.raises(KeyboardInterrupt):
                    threading.Timer(0.2, gate.open).start()
                    handle.wait()
            assert handle.wait().tolist() == values(carrier, 3) + values(carrier, 4) and len(calls) == 1
    finally:
        signal.signal(signal.SIGINT, found)
