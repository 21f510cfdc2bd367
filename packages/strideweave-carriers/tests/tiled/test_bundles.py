"""Carriers that move tiles as one: who may be a member, and where one refuses. Oracle: everything visible before."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from expert_tiles import tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import Bundle, DeviceBudget, TiledEvictable, TileSet
from strideweave.testing import gated


@pytest.mark.parametrize("fault", ["covered", "dirty over a file"])
def test_a_bundle_evicts_nothing_where_a_member_refuses(tiled, fault, tmp_path):
    """Oracle: everything visible of the member that would have gone first."""
    path = tmp_path / "weights"
    path.write_bytes(bytes(4 * 24))
    first = tiled.make(where="primary")
    second = TiledEvictable(sw.CPU(0), sw.FileBacked(path, mutable=False), (4, 1, 1), (1, 3, 2))
    bundle = Bundle([first.carrier, second])
    if fault != "covered":
        second.set_value(0, 1.0)
    before = tiled.snapshot(first.carrier)
    with gated("copy", "read") as gate:
        handle = second.promote_async(tiles(0, 1)) if fault == "covered" else None
        with pytest.raises(RuntimeError, match=r"incomplete promote.*wait\(\)" if handle else "overlay="):
            bundle.evict_async(tiles(0))
        assert not first.carrier._core.busy()
        assert tiled.snapshot(first.carrier) == before
        gate.open()
        if handle is not None:
            handle.wait()
    if handle is not None:
        bundle.evict(tiles(0))
        assert first.carrier.tile_state((0, 0, 0)).location == "secondary"


def over_file(tmp_path, capacity=None):
    """Four tiles over a file that is never written, without an overlay."""
    path = tmp_path / "values"
    path.write_bytes(torch.arange(8.0).numpy().tobytes())
    return TiledEvictable(
        sw.CPU(0), sw.FileBacked(path, mutable=False), (4,), (2,), primary_capacity=capacity
    )


def row(*numbers):
    return TileSet((n,) for n in numbers)


def test_a_members_tile_that_cannot_be_written_back_makes_no_room_for_another_member(tmp_path):
    stays, other = over_file(tmp_path), TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,))
    Bundle([stays, other], DeviceBudget(2 * 8))
    stays.set_value(0, 9.0)
    other.promote(row(0))
    other.promote(row(1))
    assert stays.primary_tiles == stays.dirty_tiles == row(0) and other.primary_tiles == row(1)
    with pytest.raises(RuntimeError, match="must go onto primary"):
        other.promote(row(2, 3))
    assert stays.get_value(0) == 9.0 and other.primary_tiles == row(1)


def test_what_a_bundle_is_made_of(tiled):
    """Whoever is refused is in no bundle, and can be taken into the next."""
    made, mate, gone = tiled.make(), tiled.make(), tiled.make()
    gone.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        Bundle([made.carrier, gone.carrier])
    with pytest.raises(TypeError, match="expected a DeviceBudget, got int"):
        Bundle([made.carrier, mate.carrier], 1000)  # type: ignore[arg-type] # what is refused
    with gated("copy") as gate:
        handle = made.carrier.promote_async(tiles(0))
        with pytest.raises(RuntimeError, match="incomplete promote on a member"):
            Bundle([mate.carrier, made.carrier])
        gate.open()
        handle.wait()
    budget = DeviceBudget(1000)
    with pytest.raises(RuntimeError, match="storage on primary already"):
        Bundle([mate.carrier, made.carrier], budget)
    assert budget.used == 0
    Bundle([mate.carrier, made.carrier])
    # What is decided for all of them is decided under one lock.
    assert mate.carrier._core.lock is made.carrier._core.lock


def test_a_bundle_is_not_evicted_by_the_thread_that_holds_a_tile(tiled):
    members = [tiled.make(where="primary").carrier for _ in range(2)]
    bundle = Bundle(members)
    with members[1].hold(tiles(2)):
        with pytest.raises(RuntimeError, match="leave the with block"):
            bundle.evict(tiles(2, 3))
        bundle.evict(tiles(0))
    assert [m.primary_tiles for m in members] == [tiles(1, 2, 3)] * 2


def test_a_budget_forgets_a_member_that_is_released():
    """Nothing of it lives on where the budget does."""
    budget = DeviceBudget(1000)
    first, second = (TiledEvictable(sw.CPU(0), sw.CPU(8), (4,), (2,)) for _ in range(2))
    Bundle([first, second], budget)
    first.promote(row(0))
    first.release()
    memory = weakref.ref(first._core)
    del first
    gc.collect()
    assert memory() is None and budget.used == 0
    second.promote(row(0))
