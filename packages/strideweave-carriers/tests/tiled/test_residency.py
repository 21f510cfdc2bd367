"""Residency and its transitions. Oracle: the state table written out by hand in each test."""

from __future__ import annotations

import struct
import threading

import pytest
import torch
from expert_tiles import BOTH, SECONDARY, choose, states, tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import (
    AwaitResidency,
    TiledEvictable,
    TileSelection,
    TileSet,
)
from strideweave.testing import Fault, fail_at, gated


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
