"""Residency, transitions, capacity and lifetime. Oracle: the state table written out by hand in each test."""

from __future__ import annotations

import gc
import struct
import threading

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import (
    AwaitResidency,
    TiledEvictable,
    TileSelection,
    TileSet,
    TileState,
)
from strideweave.testing import Fault, fail_at, gated, sweep


def tiles(*experts):
    return TileSet((e, 0, 0) for e in experts)


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def states(carrier):
    return [carrier.tile_state(carrier.geometry.coordinate(c)) for c in range(carrier.geometry.tile_count)]


BOTH, SECONDARY = TileState("both", True, False), TileState("secondary", True, False)
DIRTY, ZERO = TileState("primary", True, True), TileState("none", True, False)


@pytest.mark.spec("A54", "RES.any_subset", "RES.state")
def test_an_l_shaped_set_is_a_valid_residency(tiled):
    made = tiled.make(grid=(2, 2), tile=(1, 2))
    corner = TileSet([(0, 0), (0, 1), (1, 0)])
    made.carrier.promote(corner)
    assert made.carrier.primary_tiles == corner
    assert made.carrier.tile_state((1, 1)) == SECONDARY
    assert made.carrier.secondary_tiles == made.carrier.valid_tiles


@pytest.mark.spec("A55", "TRN.preserves", "RES.dirty")
def test_a_dirty_tile_survives_eviction_bit_for_bit():
    odd = struct.pack("<4I", 0x7FC12345, 0x80000000, 0xFF800001, 0x00000001)
    secondary = sw.CPU(4)
    primary = sw.CPU(4)
    primary.store_bytes(0, memoryview(odd))
    carrier = TiledEvictable(primary, secondary, (2,), (2,))
    assert carrier.dirty_tiles == TileSet([(0,), (1,)])
    carrier.evict(TileSet([(0,), (1,)]))
    assert states(carrier) == [SECONDARY, SECONDARY]
    primary.store_bytes(0, memoryview(bytes(16)))
    carrier.promote(TileSet([(0,), (1,)]))
    found = bytearray(16)
    carrier.load_bytes(0, memoryview(found))
    assert bytes(found) == odd and states(carrier) == [BOTH, BOTH]


@pytest.mark.spec("A56")
def test_evicting_clean_tiles_moves_nothing(experts):
    experts.carrier.promote(tiles(1, 2))
    with fail_at(1) as counter:
        experts.carrier.evict(tiles(1, 2))
    assert counter.calls == 0 and experts.carrier.stats().bytes_written_back == 0


@pytest.mark.spec("A57", "LIFE.pinned", "LIFE.order", "LIFE.race")
def test_an_eviction_waits_for_a_pending_projection(experts, tiled):
    with gated("copy") as gate:
        handle = experts.carrier.project(experts.tensor, choose(3, 1))
        eviction = experts.carrier.evict_async(tiles(1, 3))
        assert not eviction.done
        gate.open()
        compact = handle.wait()
        eviction.wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(experts.tensor, experts.values)[[3, 1]])
    assert experts.carrier.primary_tiles == TileSet()


@pytest.mark.spec("A57", "LIFE.race")
@pytest.mark.slow
def test_evict_against_project_a_thousand_times(tiled):
    made = tiled.make(grid=(3, 1, 1), primary_capacity=2)
    full = tiled.dense(made.tensor, made.values)
    failures = []
    stop = threading.Event()

    def evicting():
        while not stop.is_set():
            try:
                made.carrier.evict(tiles(0, 1, 2))
            except RuntimeError as error:
                if "wait()" not in str(error):
                    failures.append(error)

    thread = threading.Thread(target=evicting)
    thread.start()
    try:
        for k in range(1000):
            wanted = [(0, 2), (1, 0), (2, 1, 0)][k % 3]
            while True:
                try:
                    compact = made.carrier.project(made.tensor, choose(*wanted)).wait()
                    break
                except RuntimeError as error:
                    assert "incomplete evict" in str(error)
            assert torch.equal(tiled.by_mode(compact), full[list(wanted)])
    finally:
        stop.set()
        thread.join()
    assert not failures
    made.carrier.wait_idle()
    made.carrier.release()


@pytest.mark.spec("A58", "TRN.refuse_hidden")
def test_a_projection_over_an_incomplete_eviction_names_wait(tiled):
    made = tiled.make(where="primary")
    with gated("copy") as gate:
        eviction = made.carrier.evict_async(tiles(0))
        with pytest.raises(RuntimeError, match=r"incomplete evict.*wait\(\)"):
            made.carrier.project(made.tensor, choose(0, 1))
        gate.open()
        eviction.wait()
    assert made.carrier.project(made.tensor, choose(0, 1)).wait().size() == 12


@pytest.mark.spec("A59", "C30", "TRN.failed")
def test_one_failing_write_of_three_leaves_all_three_dirty(tiled):
    made = tiled.make(where="primary", prototype=lambda n: sw.CPU(n), grid=(5, 1, 1))
    apart = tiles(0, 2, 4)
    before = tiled.snapshot(made.carrier)
    for n in (1, 2, 3):
        with fail_at(n, "copy") as counter, pytest.raises(Fault):
            made.carrier.evict(apart)
        assert counter.fired and tiled.snapshot(made.carrier) == before
    made.carrier.evict(apart)
    assert made.carrier.secondary_tiles == apart and made.carrier.version == 0


@pytest.mark.spec("A60", "TRN.validate")
def test_promoting_a_tile_without_a_value_is_refused(tiled):
    made = tiled.make(where="none")
    made.carrier.update(choose(1), sw.ones((1, 3, 2))).wait()
    made.carrier.evict(tiles(1))
    before = tiled.snapshot(made.carrier)
    with fail_at(1), pytest.raises(RuntimeError, match="no value"):
        made.carrier.promote(tiles(1, 2))
    assert tiled.snapshot(made.carrier) == before


@pytest.mark.spec("A61", "TRN.idempotent", "TRN.blocking", "TRN.promotes")
def test_transitions_are_idempotent_and_return_none(experts):
    for _ in range(3):
        assert experts.carrier.promote(tiles(0, 3)) is None
        assert experts.carrier.primary_tiles == tiles(0, 3)
    assert experts.carrier.stats().bytes_promoted == 2 * 24
    for _ in range(3):
        assert experts.carrier.evict(tiles(0, 3)) is None
        assert experts.carrier.primary_tiles == TileSet()


@pytest.mark.spec("A62", "SET.empty")
def test_an_empty_set_is_done_at_once(experts):
    for call in (experts.carrier.promote_async, experts.carrier.evict_async):
        handle = call(TileSet())
        assert isinstance(handle, AwaitResidency) and handle.done and handle.wait() is None


@pytest.mark.spec("A63", "TRN.tile_set", "TRN.types", "TRN.values", "TRN.released")
def test_arguments_of_transitions(experts, tiled):
    before = tiled.snapshot(experts.carrier)
    for call in (
        experts.carrier.promote,
        experts.carrier.evict,
        experts.carrier.promote_async,
        experts.carrier.evict_async,
    ):
        for bad in ([(0, 0, 0)], None, ((0, 0, 0),)):
            with pytest.raises(TypeError, match="TileSet"):
                call(bad)
        for bad in (TileSet([(4, 0, 0)]), TileSet([(0,)]), TileSelection([[0], [1], [0]])):
            with pytest.raises(ValueError):
                call(bad)
    assert tiled.snapshot(experts.carrier) == before
    experts.carrier.promote(choose(2, 1))
    assert experts.carrier.primary_tiles == tiles(1, 2)
    experts.carrier.release()
    for call in (
        experts.carrier.promote,
        experts.carrier.evict,
        experts.carrier.promote_async,
        experts.carrier.evict_async,
    ):
        with pytest.raises(RuntimeError, match="released"):
            call(tiles(0))


@pytest.mark.spec("A64", "TRN.no_autograd", "OWN.keeps")
def test_residency_is_no_data(experts):
    experts.carrier.promote(tiles(0))
    experts.carrier.evict(tiles(0))
    assert experts.tensor.version == 0 and experts.tensor.autograd_ctx is None


@pytest.mark.spec("TRN.async", "A31")
def test_transitions_start_and_return(experts):
    with gated("copy") as gate:
        handle = experts.carrier.promote_async(tiles(0, 1))
        assert gate.reached.wait(10) and not handle.done
        assert states(experts.carrier)[0] == SECONDARY
        gate.open()
        assert handle.wait() is None
    assert states(experts.carrier)[:2] == [BOTH, BOTH]


@pytest.mark.spec("A92", "TRN.failed")
@pytest.mark.parametrize("capacity", [None, 3])
def test_a_promotion_that_fails_is_undone_whole(tiled, capacity):
    made = tiled.make(grid=(6, 1, 1), primary_capacity=capacity)
    if capacity:
        made.carrier.update(choose(0), sw.ones((1, 3, 2))).wait()
        made.carrier.promote(tiles(2))
    before = tiled.snapshot(made.carrier)
    wanted = tiles(1, 3, 5)
    count = sweep(lambda: made.carrier.promote(wanted), lambda: _same(tiled, made, before))
    assert count >= 4
    assert made.carrier.primary_tiles == wanted


def _same(tiled, made, before):
    after = tiled.snapshot(made.carrier)
    assert after[:4] == before[:4]


@pytest.mark.spec("A93")
def test_capacity(tiled):
    made = tiled.make(primary_capacity=2)
    before = tiled.snapshot(made.carrier)
    with fail_at(1), pytest.raises(ValueError, match="primary_capacity 2"):
        made.carrier.promote(tiles(0, 1, 2))
    assert tiled.snapshot(made.carrier) == before
    made.carrier.promote(tiles(0, 1))
    made.carrier.promote(tiles(2))
    assert made.carrier.primary_tiles == tiles(1, 2), "the least recently used clean tile makes room"


@pytest.mark.spec("A93", "POL.retain")
def test_retained_tiles_stay_while_others_stream(tiled):
    plan = sw.ResidencyPlan(retain=tiles(0, 1))
    policy = tiled.Recorder(plan)
    made = tiled.make(primary_capacity=2, residency_policy=policy)
    made.carrier.promote(tiles(0, 1))
    compact = made.carrier.project(made.tensor, choose(3)).wait()
    assert torch.equal(tiled.by_mode(compact), tiled.dense(made.tensor, made.values)[[3]])
    assert made.carrier.primary_tiles == tiles(0, 1)


def test_clean_tiles_are_replaced_before_dirty_ones(tiled):
    made = tiled.make(primary_capacity=2)
    made.carrier.update(choose(0), sw.ones((1, 3, 2))).wait()
    made.carrier.promote(tiles(1))
    made.carrier.promote(tiles(2))
    assert made.carrier.primary_tiles == tiles(0, 2)
    made.carrier.promote(tiles(1, 3))
    assert made.carrier.primary_tiles == tiles(1, 3) and states(made.carrier)[0] == SECONDARY
    assert made.carrier.get_value(0) == 1.0


def test_no_place_names_who_holds_it(tiled):
    made = tiled.make(primary_capacity=1)
    with made.carrier.hold(tiles(0)), pytest.raises(RuntimeError, match="held by hold"):
        made.carrier.promote(tiles(1))
    made.carrier.promote(tiles(1))


@pytest.mark.spec("A94")
def test_a_read_only_secondary_needs_an_overlay(tiled, tmp_path):
    path = tmp_path / "weights"
    path.write_bytes(torch.arange(4.0).numpy().tobytes())
    for overlay in (None, sw.CPU(0)):
        carrier = TiledEvictable(sw.CPU(0), sw.FileBacked(path, mutable=False), (2,), (2,), overlay=overlay)
        carrier.set_value(0, 9.0)
        if overlay is None:
            with fail_at(1), pytest.raises(RuntimeError, match="overlay="):
                carrier.evict(TileSet([(0,)]))
            assert carrier.tile_state((0,)) == DIRTY
        else:
            carrier.evict(TileSet([(0,)]))
            assert carrier.tile_state((0,)) == SECONDARY
        assert [carrier.get_value(i) for i in range(4)] == [9.0, 1.0, 2.0, 3.0]
    assert path.read_bytes() == torch.arange(4.0).numpy().tobytes()


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
    assert experts.carrier.release() is None and experts.carrier.release() is None
    assert experts.carrier.is_released() and compact.size() == 6 and compact.carrier.get_value(0) == 1.0
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


@pytest.mark.spec("A102")
def test_collections_inside_the_lock_do_not_deadlock(experts):
    carrier = experts.carrier
    original = type(carrier._core.table).place

    def collecting(self, record, slot):
        gc.collect()
        original(self, record, slot)

    type(carrier._core.table).place = collecting
    try:
        done = threading.Event()

        def work():
            for k in range(20):
                carrier.project(experts.tensor, choose(k % 4))
                carrier.wait_idle()
                carrier.evict(tiles(k % 4))
            done.set()

        threading.Thread(target=work, daemon=True).start()
        assert done.wait(60)
    finally:
        type(carrier._core.table).place = original


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
