"""Page-locking in place. Oracle: the addresses that a stand-in for the driver was told to lock and unlock."""

from __future__ import annotations

import ctypes
import gc
import threading

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet
from strideweave.carriers.tiled_evictable.mover import HostMover
from strideweave.carriers.tiled_evictable.mover_cuda import CudaMover
from strideweave.movement import page_locks, pinning
from strideweave.movement.pinning import PAGE, Pinning
from strideweave.movement.retirement import retirement
from strideweave.movement.transfer import Run


@pytest.fixture
def driver(monkeypatch):
    """Locked ranges by address; ``limit`` bytes at most."""

    class Driver(dict):
        limit = 1 << 40

    locked = Driver()

    def lock(address, nbytes):
        assert address % PAGE == 0 and nbytes % PAGE == 0
        assert not any(a < address + nbytes and address < a + n for a, n in locked.items())
        if sum(locked.values()) + nbytes > locked.limit:
            return False
        locked[address] = nbytes
        return True

    monkeypatch.setattr(pinning, "_lock_pages", lock)
    monkeypatch.setattr(page_locks, "unlock", lambda address: 0 if locked.pop(address) else 1)
    monkeypatch.setattr(pinning, "CHUNK", 4 * PAGE)
    return locked


def settled():
    gc.collect()
    return retirement().settle(20)


def within(locked, start, nbytes):
    return any(a <= start and start + nbytes <= a + n for a, n in locked.items())


def test_only_memory_in_pages_of_its_own_is_locked():
    """Copies of others over a range that is locked in part are refused by the driver."""
    for carrier in (
        sw.CPU(64, dtype=sw.UInt8),
        sw.from_torch(torch.zeros(1 << 21, dtype=torch.uint8)).carrier,
    ):
        with pytest.raises(ValueError, match="share pages"):
            carrier.pin_lazily()
    carrier = sw.CPU((1 << 20) + 5, dtype=sw.UInt8)
    assert carrier.host_address() % PAGE == 0
    carrier.pin_lazily()
    assert carrier.pinning is not None


@pytest.mark.parametrize("end", [0, 1])
@pytest.mark.parametrize("shift", [0, 64, 4095])
def test_runs_are_cut_so_that_each_lies_in_one_locked_chunk(driver, end, shift):
    flat = torch.zeros(64 * PAGE, dtype=torch.uint8)[shift:]
    mine = Pinning(flat)
    runs = [Run(5, 9, 100), Run(1000, 2000, 11 * PAGE + 3), Run(40 * PAGE, 41 * PAGE, 1)]
    assert not mine.holds(runs, end) and mine.make(runs, end) and mine.holds(runs, end)
    cut = mine.cut(runs, end)
    assert all(within(driver, flat.data_ptr() + run[end], run.nbytes) for run in cut)
    for run in runs:
        pieces = [c for c in cut if run.source <= c.source < run.source + run.nbytes]
        assert sum(c.nbytes for c in pieces) == run.nbytes
        assert all(c.source - run.source == c.target - run.target for c in pieces)
    mine.undo()
    assert settled() and not driver and not mine.holds(runs, end)


def test_exhausted_memory_is_asked_for_once(driver):
    driver.limit = 8 * PAGE
    flat = torch.zeros(64 * PAGE, dtype=torch.uint8)
    mine = Pinning(flat)
    assert mine.make([Run(0, 0, PAGE)], 0)
    assert not mine.make([Run(0, 0, 30 * PAGE)], 0)
    driver.limit = 1 << 40
    assert not mine.make([Run(0, 0, 30 * PAGE)], 0), "a refused chunk is not asked for again"
    assert mine.holds([Run(0, 0, PAGE)], 0)
    mine.undo()
    assert settled() and not driver


def test_memory_outlives_its_carrier_until_it_is_unlocked(driver, monkeypatch):
    """Oracle: what its bytes are when the driver is told to let go, on the thread that waits for that."""
    gate, seen, unlock = threading.Event(), [], page_locks.unlock

    def late(address):
        gate.wait(20)
        seen.append(
            (threading.current_thread().name, ctypes.string_at(address, 4 * PAGE) == bytes([7]) * 4 * PAGE)
        )
        return unlock(address)

    monkeypatch.setattr(page_locks, "unlock", late)
    carrier = sw.CPU(512 * PAGE, dtype=sw.UInt8)
    carrier.pin_lazily()
    assert carrier.pinning.make([Run(0, 0, 512 * PAGE)], 0)
    carrier.flat().fill_(7)
    assert sum(driver.values()) >= 512 * PAGE
    del carrier
    gc.collect()
    others = [torch.zeros(512 * PAGE, dtype=torch.uint8) for _ in range(4)]
    assert len(driver) == 128, "a finaliser calls no driver"
    gate.set()
    assert settled() and not driver
    assert seen == [("strideweave-unlock", True)] * 128 and not any(one.any() for one in others)


def test_release_unlocks(driver):
    carrier = sw.CPU(512 * PAGE, dtype=sw.UInt8)
    carrier.pin_lazily()
    carrier.pinning.make([Run(0, 0, 1)], 1)
    carrier.release()
    assert carrier.pinning is None and settled() and not driver


def test_memory_that_only_a_tiled_carrier_knows_is_prepared_for_a_device(monkeypatch):
    """Its own slabs for write-backs, and the copy that from_torch makes; nothing of the caller's, no gradients."""
    kept = []
    monkeypatch.setattr(HostMover, "keep", lambda self, carrier: kept.append(carrier))
    carrier = TiledEvictable(sw.CPU(12), sw.CPU(0), (3,), (4,))
    tensor = carrier.full_tensor()
    assert not kept
    carrier.evict(TileSet([(1,)]))
    assert [c for c in kept if c in carrier._core.secondary.carriers()] == kept and len(kept) == 1
    del kept[:]
    carrier.project(tensor, TileSelection([[0, 1]])).wait()
    sw.mul(tensor, 2.0).backward(sw.Tensor(sw.from_torch(torch.ones(12)).carrier, 0, sw.Layout(((4, 3),))))
    tensor.grad.carrier.evict(TileSet([(0,)]))
    assert not kept
    shared = TiledEvictable.from_torch(torch.zeros(3, 4), (1, 4))
    assert not kept and shared.carrier.grid_shape == (3, 1)
    copied = TiledEvictable.from_torch(torch.zeros(3, 4), (1, 4), copy=True)
    assert kept == [copied.carrier._core.home.carrier]


def test_a_device_page_locks_what_is_large_enough():
    mover, small, large = CudaMover(0), sw.CPU(64, dtype=sw.UInt8), sw.CPU(1 << 20, dtype=sw.UInt8)
    for carrier in (small, large, sw.Generic([1.0])):
        mover.keep(carrier)
    assert small.pinning is None and large.pinning is not None
