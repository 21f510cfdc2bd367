"""Every counter of ``stats()``, request by request. Oracle: what each request needs and moves, counted by hand."""

from __future__ import annotations

import threading
from dataclasses import asdict

import pytest
import torch
from expert_tiles import choose, tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import Prefetcher, TiledEvictable
from strideweave.testing import gated

TILE = 24
TIMED = ("promote_seconds", "stall_seconds", "stalls")
"""Depend on which thread is quicker."""


class Counted:
    """What counters gained with each step; those that did not change are left out."""

    def __init__(self, carrier):
        self.carrier = carrier
        self.before = self._now()

    def _now(self):
        return {k: v for k, v in asdict(self.carrier.stats()).items() if k not in TIMED}

    def gained(self):
        before, self.before = self.before, self._now()
        return {k: v - before[k] for k, v in self.before.items() if v != before[k]}


def over(capacity):
    """Four experts that lie row by row, so that canonical order permutes them; none is on primary."""
    full = TiledEvictable.from_torch(
        torch.arange(24.0).reshape(4, 3, 2), (1, 3, 2), primary_capacity=capacity
    )
    return full, full.carrier, Counted(full.carrier)


def ones(shape):
    return sw.Tensor(sw.ones(24).carrier, 0, sw.Layout(shape))


def test_requests_with_room_for_all():
    full, carrier, counted = over(None)
    compact = carrier.project(full, choose(0, 1)).wait()
    new = {"misses": 2, "bytes_promoted": 2 * TILE, "resident_tiles": 2, "peak_resident_tiles": 2}
    assert counted.gained() == {"requests": 1, "permuted_by_torch": 1, **new}
    carrier.project(full, choose(0), order="tile").wait()
    assert counted.gained() == {"requests": 1, "hits": 1}
    root = sw.relu(full)
    assert counted.gained() == {"requests": 1, "hits": 2, **new}
    root.backward(ones(root.shape))
    assert counted.gained() == {"requests": 1, "hits": 4}
    compact.backward(sw.ones((2, 3, 2)))
    assert counted.gained() == {"requests": 1, "hits": 2}
    carrier.scatter(sw.ones((2, 3, 2)), full, choose(2, 3), "add").wait()
    assert counted.gained() == {"requests": 1, "hits": 2}
    with carrier.hold(tiles(1)):
        assert counted.gained() == {"requests": 1, "hits": 1}
    carrier.update(choose(2, 3), sw.ones((2, 3, 2))).wait()
    assert counted.gained() == {"permuted_by_torch": 1}
    carrier.evict(tiles(0, 1, 2, 3))
    assert counted.gained() == {"bytes_written_back": 2 * TILE, "resident_tiles": -4}
    carrier.set_value(0, 3.0)
    carrier.get_value(23)
    assert counted.gained() == {"bytes_promoted": TILE, "resident_tiles": 1}


def test_requests_beyond_one_place():
    full, carrier, counted = over(1)
    carrier.project(full, choose(0, 1)).wait()
    first = {"bytes_promoted": TILE, "resident_tiles": 1, "peak_resident_tiles": 1}
    streamed = {"bytes_streamed": TILE, "permuted_by_torch": 2}
    assert counted.gained() == {"requests": 1, "misses": 2, **first, **streamed}
    sw.relu(full)
    assert counted.gained() == {"requests": 1, "hits": 1, "misses": 3, "bytes_streamed": 3 * TILE}
    carrier.scatter(sw.ones((2, 3, 2)), full, choose(2, 3)).wait()
    assert counted.gained() == {"requests": 1, "misses": 2}
    carrier.scatter(sw.ones((2, 3, 2)), full, choose(0, 3), "add").wait()
    assert counted.gained() == {"requests": 1, "hits": 1, "misses": 1, "bytes_streamed": TILE}
    carrier.update(choose(2), sw.ones((1, 3, 2))).wait()
    assert counted.gained() == {"permuted_by_torch": 1}, (
        "a clean tile made room, and what is replaced is not read"
    )
    carrier.promote(tiles(3))
    assert counted.gained() == {"bytes_promoted": TILE, "bytes_written_back": TILE}


@pytest.mark.parametrize("kind", ["float32", "int32"])
@pytest.mark.parametrize("reduction", ["replace", "add"])
@pytest.mark.parametrize("capacity", [None, 1])
def test_copies_that_change_the_order_of_elements(kind, reduction, capacity):
    """One for all tiles where they lie side by side, else one for each; none where the order is the tiles' own."""
    values = torch.arange(24).reshape(4, 3, 2).to(getattr(torch, kind))
    full = TiledEvictable.from_torch(values, (1, 3, 2), primary_capacity=capacity)
    piece = sw.from_torch(values[:2])
    result = full.carrier.scatter(piece, full, choose(1, 0), reduction).wait()
    found = result.carrier.stats()
    each = capacity or (kind == "int32" and reduction == "add")
    assert (found.permuted_by_torch, found.permuted_by_kernel) == (2 if each else 1, 0)
    canonical = full.carrier.full_tensor(full.carrier.canonical_layout())
    alone = full.carrier.scatter(sw.from_torch(values[:1]), canonical, choose(1), reduction).wait()
    assert alone.carrier.project(alone, choose(1)).wait().size() == 6
    assert alone.carrier.stats().permuted_by_torch == 0


def test_prefetched_tiles_are_wasted_where_nobody_reads_them():
    full, carrier, counted = over(None)
    prefetcher = Prefetcher(carrier)
    prefetcher.promote(tiles(0, 1, 2)).wait()
    there = {"resident_tiles": 3, "peak_resident_tiles": 3}
    assert counted.gained() == {"prefetched": 3, "bytes_promoted": 3 * TILE, **there}
    prefetcher.promote(tiles(0, 1)).wait()
    assert counted.gained() == {}, "what is there is not prefetched again"
    prefetcher.project(full, choose(0), order="tile").wait()
    with carrier.hold(tiles(1)):
        assert counted.gained() == {"requests": 2, "hits": 2}
    carrier.evict(tiles(0, 1, 2))
    assert counted.gained() == {"wasted_prefetch": 1, "resident_tiles": -3}
    carrier.promote(tiles(2))
    carrier.evict(tiles(2))
    assert counted.gained() == {"bytes_promoted": TILE}, "what the caller promoted was no prefetch"


@pytest.mark.parametrize("way", ["resident", "with what is missing", "policy", "operation"])
def test_a_prefetched_tile_is_read_whatever_the_way_of_the_request(way):
    """One of two that were prefetched is read, and is not counted when both leave; an operation reads both."""
    values = torch.arange(24.0).reshape(4, 3, 2)
    policy = sw.PinSet(tiles()) if way == "policy" else None
    full = TiledEvictable.from_torch(values, (1, 3, 2), primary_capacity=4, residency_policy=policy)
    Prefetcher(full.carrier).promote(tiles(0, 1)).wait()
    if way == "operation":
        sw.relu(full)
    else:
        full.carrier.project(full, choose(1, 2) if way == "with what is missing" else choose(1)).wait()
    full.carrier.wait_idle()
    full.carrier.evict(tiles(0, 1, 2, 3))
    assert full.carrier.stats().wasted_prefetch == (0 if way == "operation" else 1)


def test_a_wait_that_finds_its_request_unfinished_is_a_stall():
    full, carrier, _ = over(None)
    with gated("copy") as gate:
        handle = carrier.project(full, choose(0))
        assert carrier.stats().stalls == 0
        gate.open()
    carrier.wait_idle()
    handle.wait()
    assert (carrier.stats().stalls, carrier.stats().stall_seconds) == (0, 0)
    with gated("copy") as gate:
        handle = carrier.promote_async(tiles(1))
        opened = threading.Timer(0.05, gate.open)
        opened.start()
        begun = carrier._core.stats.clock()
        handle.wait()
        passed = carrier._core.stats.clock() - begun
        opened.join()
    found = carrier.stats()
    assert found.stalls == 1 and 0 < found.stall_seconds <= passed
    handle.wait()
    assert carrier.stats() == found, "a second wait finds it done"
