"""Conflicts, release, interrupts and collections. Oracle: values, and the state table written out by hand."""

from __future__ import annotations

import gc
import threading

import pytest
import torch
from expert_tiles import DIRTY, SECONDARY, ZERO, choose, states, tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import (
    Bundle,
    Prefetcher,
    TiledEvictable,
    TileSelection,
    TileSet,
    TileState,
)
from strideweave.testing import fail_at, gated


@pytest.mark.spec("A95", "TRN.refuse_hidden")
def test_everything_refuses_another_callers_incomplete_request(tiled):
    made = tiled.make()
    projected = made.carrier.project(made.tensor, choose(0)).wait()
    weighted = sw.relu(projected)
    full = sw.relu(made.tensor)
    made.carrier.evict(tiles(0, 1, 2, 3))
    made.tensor.grad = None
    with gated("copy") as gate:
        handle = made.carrier.promote_async(tiles(0, 1))
        ones = sw.ones((1, 3, 2))
        for action in (
            lambda: sw.relu(made.tensor),
            lambda: made.carrier.project(made.tensor, choose(0)),
            lambda: made.carrier.scatter(ones, made.tensor, choose(1)),
            lambda: made.carrier.update(choose(1), ones),
            lambda: made.carrier.promote(tiles(1)),
            lambda: made.carrier.evict(tiles(1)),
            lambda: weighted.backward(ones),
            lambda: full.backward(sw.ones((4, 3, 2))),
        ):
            with pytest.raises(RuntimeError, match="wait"):
                action()
        assert made.tensor.grad is None
        made.carrier.promote_async(tiles(2))
        gate.open()
        handle.wait()
    made.carrier.wait_idle()
    weighted.backward(sw.ones((1, 3, 2)))
    assert made.tensor.grad is not None


@pytest.mark.spec("A98")
def test_a_dropped_eviction_still_conflicts_and_can_be_waited_for(tiled):
    made = tiled.make(where="primary")
    with gated("copy") as gate:
        made.carrier.evict_async(tiles(0))
        gc.collect()
        with pytest.raises(RuntimeError, match="wait_idle"):
            made.carrier.project(made.tensor, choose(0))
        gate.open()
        made.carrier.wait_idle()
    assert made.carrier.project(made.tensor, choose(0)).wait().size() == 6


@pytest.mark.spec("A57", "LIFE.order")
def test_a_promotion_over_a_projection_uses_its_transfer(experts):
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, choose(0, 1))
        promotion = experts.carrier.promote_async(tiles(1, 2))
        gate.open()
        handle.wait(), promotion.wait()
    assert experts.carrier.stats().bytes_promoted == 3 * 24
    assert experts.carrier.primary_tiles == tiles(0, 1, 2)


@pytest.mark.spec("A53", "RES.invalid")
def test_implicit_zeros_come_and_go_without_bytes(tiled):
    made = tiled.make()
    sw.relu(made.carrier.project(made.tensor, choose(1)).wait()).backward(sw.ones((1, 3, 2)))
    carrier = made.tensor.grad.carrier
    assert states(carrier) == [ZERO, DIRTY, ZERO, ZERO]
    assert carrier._core.primary.allocated() == 1
    carrier.promote(tiles(0))
    assert states(carrier)[0] == TileState("primary", True, False)
    assert [carrier.get_value(i) for i in range(6)] == [0.0] * 6
    carrier.evict(tiles(0))
    assert states(carrier)[0] == ZERO and carrier.stats().bytes_written_back == 0


@pytest.mark.spec("A90", "REL.all", "REL.pending", "REL.after")
def test_release(experts):
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, choose(0))
        with pytest.raises(RuntimeError, match=r"incomplete project.*wait"):
            experts.carrier.release()
        gate.open()
        compact = handle.wait()
    pools = experts.carrier._core.primary, experts.carrier._core.secondary
    storage = [carrier for pool in pools for carrier in pool.carriers()]
    assert experts.carrier.release() is None and experts.carrier.release() is None
    assert experts.carrier.is_released() and compact.size() == 6 and compact.carrier.get_value(0) == 1.0
    assert storage and all(carrier.is_released() for carrier in storage)
    for tier in experts.tiers.values():
        assert tier.is_released()
    for action in (
        lambda: experts.carrier.project(experts.tensor, choose(0)),
        lambda: experts.carrier.scatter(compact, experts.tensor, choose(0)),
        lambda: experts.carrier.promote(tiles(0)),
        lambda: experts.carrier.evict(tiles(0)),
        lambda: experts.carrier.update(choose(0), compact),
        lambda: experts.carrier.hold(tiles(0)),
        lambda: experts.carrier.get_value(0),
        lambda: experts.carrier.set_value(0, 1.0),
        lambda: sw.relu(experts.tensor),
    ):
        with pytest.raises(RuntimeError, match="released"):
            action()


@pytest.mark.spec("A100")
def test_release_with_a_live_graph(experts):
    compact = experts.carrier.project(experts.tensor, choose(0)).wait()
    direct = sw.add(experts.tensor, experts.tensor)
    experts.carrier.release()
    with pytest.raises(RuntimeError, match="released"):
        sw.relu(compact).backward(sw.ones((1, 3, 2)))
    with pytest.raises(RuntimeError, match="released"):
        direct.backward(sw.ones((4, 3, 2)))


@pytest.mark.spec("A101")
def test_inference_mode_does_not_stick(tiled):
    with torch.inference_mode():
        made = tiled.make(primary_capacity=2)
    made.carrier.promote(tiles(0, 1))
    made.carrier.set_value(0, 5.0)
    compact = made.carrier.project(made.tensor, choose(0, 3)).wait()
    assert compact.carrier.get_value(0) == 5.0


class CollectingLock:
    """A lock that collects garbage whenever it is taken; ``found`` counts the unreachable objects."""

    def __init__(self):
        self._lock, self.found = threading.Lock(), 0

    def acquire(self, *how):
        taken = self._lock.acquire(*how)
        if taken:
            self.found += gc.collect()
        return taken

    def release(self):
        self._lock.release()

    def __enter__(self):
        return self.acquire()

    def __exit__(self, *_):
        self.release()


@pytest.mark.spec("A102")
def test_collections_inside_the_lock_do_not_deadlock(experts):
    """What is collected there: handles on this carrier's own requests, and storage of each kind."""
    carrier = experts.carrier
    core = carrier._core
    lock = core.lock = CollectingLock()
    core.idle = threading.Condition(lock)
    # What earlier tests left behind is not what is collected here: a full heap takes seconds a collection.
    gc.freeze()
    try:
        done = threading.Event()

        def work():
            for k in range(20):
                dropped = [
                    carrier.project(experts.tensor, choose(k % 4)),
                    carrier.promote_async(tiles((k + 1) % 4)),
                ]
                dropped += [
                    sw.FileBacked(None, 4),
                    sw.ones(3),
                    carrier.hold(tiles(2)),
                    TiledEvictable(sw.CPU(0), sw.CPU(4), (2,), (2,)),
                ]
                dropped.append(dropped)
                del dropped
                carrier.wait_idle()
                carrier.evict(tiles(*range(4)))
            done.set()

        threading.Thread(target=work, daemon=True).start()
        assert done.wait(60)
    finally:
        gc.unfreeze()
    assert lock.found >= 20 * 6


@pytest.mark.spec("D10")
@pytest.mark.parametrize("where", ["provider", "policy"])
def test_an_interrupt_leaves_the_carrier_usable(tiled, where):
    plans = [KeyboardInterrupt()] if where == "policy" else []
    made = tiled.make(residency_policy=tiled.Recorder(*plans))
    before = tiled.snapshot(made.carrier)
    if where == "policy":
        with pytest.raises(KeyboardInterrupt):
            made.carrier.project(made.tensor, choose(0, 1))
    else:
        for n in range(1, 4):
            with fail_at(n, error=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
                made.carrier.project(made.tensor, choose(0, 1)).wait()
            made.carrier.wait_idle()
            made.carrier.evict(tiles(0, 1))
    assert tiled.snapshot(made.carrier)[0] == before[0]
    assert made.carrier.project(made.tensor, choose(0, 1)).wait().size() == 12


@pytest.mark.spec("C33")
def test_a_thousand_transitions_do_not_grow(tiled):
    made = tiled.make(grid=(3, 1, 1), tile=(1, 7, 11), primary_capacity=2)
    for k in range(1000):
        made.carrier.promote(tiles(k % 3))
        if k % 2:
            made.carrier.evict(tiles(k % 3))
    core = made.carrier._core
    assert core.primary.allocated() == 2 and len(core.primary.slabs) == 1 and core.secondary.allocated() == 0
    assert len(core.active) == len(core.deferred) == 0


@pytest.mark.spec("HOLD")
def test_a_hold_keeps_tiles_and_shows_where_they_lie(tiled):
    made = tiled.make(primary_capacity=3)
    with made.carrier.hold(choose(3, 0)) as held:
        pool, rows = held.slots
        full = made.values.view(4, 6)
        assert torch.equal(pool[list(rows)], full[[3, 0]])
        eviction = made.carrier.evict_async(tiles(0))
        with pytest.raises(RuntimeError, match="hold"):
            made.carrier.update(choose(3), sw.ones((1, 3, 2)))
        with pytest.raises(RuntimeError, match="hold"):
            made.carrier.release()
        assert not eviction.done
    eviction.wait()
    assert made.carrier.primary_tiles == tiles(3)
    with pytest.raises(RuntimeError, match="with block"):
        _ = held.slots


@pytest.mark.spec("HOLD")
def test_holds_that_overlap_end_one_by_one(tiled):
    made = tiled.make(primary_capacity=3)
    core = made.carrier._core
    with made.carrier.hold(choose(3, 0)):
        with made.carrier.hold(choose(0, 1)), made.carrier.hold(choose(0)):
            assert core.held == {0: 3, 1: 1, 3: 1}
        # Captures ask for exactly this: the outer hold still has both of its tiles.
        assert core.held == {0: 1, 3: 1}
    assert not core.held


def test_arguments_of_another_kind_are_named(tiled):
    made = tiled.make()
    with pytest.raises(TypeError, match="TileSet: expected a finite iterable, got int 3"):
        made.carrier.tile_state(3)
    for bad in (made.tensor, 3, sw.CPU(2)):
        with pytest.raises(TypeError, match=r"Prefetcher: expected a TiledEvictable.*pass its carrier"):
            Prefetcher(bad)
        with pytest.raises(TypeError, match=r"Bundle: expected TiledEvictable carriers.*pass its carrier"):
            Bundle([bad])


@pytest.mark.parametrize("shared", [False, True])
def test_slots_in_several_slabs_name_what_gives_one(tiled, shared):
    carrier = tiled.make(primary_capacity=3 if shared else None).carrier
    Bundle([carrier], budget=sw.DeviceBudget(1000) if shared else None)
    remedy = "no budget.*order=" if shared else "construct the carrier with primary_capacity="
    carrier.promote(tiles(3))
    with carrier.hold(choose(3, 0)) as held, pytest.raises(RuntimeError, match=f"2 slabs; .*{remedy}"):
        _ = held.slots


@pytest.mark.spec("HOLD")
def test_a_thread_does_not_wait_for_its_own_hold(tiled):
    carrier = tiled.make(primary_capacity=3).carrier
    with carrier.hold(choose(3, 0)):
        carrier.promote(tiles(1))
        carrier.evict(tiles(1))
        for wait in (carrier.wait_idle, lambda: carrier.evict(tiles(0, 1))):
            with pytest.raises(RuntimeError, match="leave the with block"):
                wait()
        assert carrier.primary_tiles == tiles(0, 3)
        other = threading.Thread(target=carrier.wait_idle)
        other.start()
        other.join(0.05)
        assert other.is_alive()
    other.join(30)
    assert not other.is_alive()
    carrier.evict(tiles(0, 3))
    assert carrier.primary_tiles == TileSet()


@pytest.mark.spec("HOLD")
def test_slots_of_an_empty_hold_are_refused_by_name(tiled):
    with tiled.make().carrier.hold(TileSet()) as held, pytest.raises(RuntimeError, match="no tiles"):
        _ = held.slots


@pytest.mark.spec("HOLD")
def test_a_hold_is_entered_once_at_a_time(tiled):
    carrier = tiled.make(where="primary").carrier
    hold = carrier.hold(tiles(1))
    for _ in range(2):
        with hold as held:
            with pytest.raises(RuntimeError, match="in use already"):
                hold.__enter__()
            eviction = carrier.evict_async(tiles(1))
            assert not eviction.done and held.slots[1] == (1,)
        eviction.wait()
        carrier.set_value(6, 7.0)
    assert not carrier._core.busy()


def test_metadata_of_a_huge_carrier_costs_what_a_small_one_costs(tiled):
    class Phantom(sw.Carrier):
        """Slots that are only counted."""

        def __init__(self, n):
            super().__init__(sw.Float32, True)
            self._n = n

        def size(self):
            return self._n

        def allocate_like(self, n, *, mutable=True, dtype=None, empty=False):
            return sw.CPU(n)

        def load_bytes(self, offset, into):
            into[:] = bytes(len(into))

        def store_bytes(self, offset, data):
            raise AssertionError("nothing writes")

        def free_storage(self):
            pass

    sw.register_host_carrier(Phantom)
    carrier = TiledEvictable(sw.CPU(0), Phantom(10**12), (10**6, 1), (1, 10**6))
    tensor = carrier.full_tensor()
    assert carrier.tile_state((999_999, 0)) == SECONDARY
    compact = carrier.project(tensor, TileSelection([[5, 999_999], [0]])).wait()
    assert compact.size() == 2 * 10**6 and carrier.primary_tiles == TileSet([(5, 0), (999_999, 0)])
    carrier.evict(TileSet([(5, 0)]))
    assert len(list(carrier._core.table.touched())) < 20
    carrier.release()
