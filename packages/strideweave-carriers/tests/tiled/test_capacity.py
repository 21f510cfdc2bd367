"""What fits on primary, what is replaced, and undoing. Oracle: the state table written out by hand in each test."""

from __future__ import annotations

import pytest
import torch
from expert_tiles import DIRTY, SECONDARY, choose, states, tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import (
    TiledEvictable,
    TileSelection,
    TileSet,
)
from strideweave.testing import fail_at, sweep


def _same(tiled, made, before):
    after = tiled.snapshot(made.carrier)
    assert after[:4] == before[:4]


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


@pytest.mark.spec("A94")
@pytest.mark.parametrize("way", ["promote", "update", "hold", "plan", "covered plan", "project", "operation"])
def test_a_tile_that_cannot_be_written_back_is_not_replaced(tiled, tmp_path, way):
    """One place, taken by a changed tile over a file. What must go there is refused, the rest is read past it."""
    path = tmp_path / "weights"
    path.write_bytes(torch.arange(4.0).numpy().tobytes())
    policy = tiled.Recorder()
    carrier = TiledEvictable(
        *(sw.CPU(0), sw.FileBacked(path, mutable=False), (2,), (2,)),
        primary_capacity=1,
        residency_policy=policy,
    )
    full, other = carrier.full_tensor(), TileSelection([[1]])
    carrier.set_value(0, 9.0)
    before = tiled.snapshot(carrier)
    if "plan" in way:
        policy.plans.append(sw.ResidencyPlan(promote=TileSet([(1,)])))
    refused = {
        "promote": lambda: carrier.promote(other),
        "update": lambda: carrier.update(other, sw.zeros(2)).wait(),
        "hold": lambda: carrier.hold(other).__enter__(),
        "plan": lambda: carrier.project(full, other).wait(),
        "covered plan": lambda: carrier.project(full, TileSelection([[0, 1]])).wait(),
    }
    if way in refused:
        with pytest.raises(RuntimeError, match=r"1 tile.s. must go onto primary.*without overlay="):
            refused[way]()
    elif way == "project":
        assert carrier.project(full, other).wait().tolist() == [2.0, 3.0]
    else:
        assert sw.mul(full, 2).tolist() == [18.0, 2.0, 4.0, 6.0]
    assert tiled.snapshot(carrier) == before


@pytest.mark.spec("SCT.fresh", "GRD.scatter_add")
@pytest.mark.parametrize("overlay", [False, True])
def test_scatters_and_gradients_over_a_file_have_storage_of_their_own(tmp_path, overlay):
    """With one place on primary both spill. Oracle: the values, and the bytes of every file before."""
    values = torch.arange(8.0)
    path, scratch = tmp_path / "weights", tmp_path / "scratch"
    path.write_bytes(values.numpy().tobytes())
    scratch.write_bytes(bytes(32))
    below = sw.FileBacked(scratch) if overlay else None
    carrier = TiledEvictable(
        *(sw.CPU(0), sw.FileBacked(path, mutable=False), (4,), (2,)), overlay=below, primary_capacity=1
    )
    tensor, every = carrier.full_tensor(), TileSelection([range(4)])
    compact = carrier.project(tensor, every).wait()
    sw.mul(compact, 3.0).backward(sw.ones(8))
    scattered = carrier.scatter(sw.ones(8), tensor, every, "add").wait()
    for result, wanted in ((tensor.grad, torch.full((8,), 3.0)), (scattered, values + 1)):
        fresh = result.carrier
        assert fresh.secondary_class is sw.FileBacked and len(fresh.secondary_tiles) >= 3
        assert not any(s.carrier is below for s in fresh._core.secondary.slabs)
        found = fresh.project(result, every).wait()
        assert torch.equal(sw.to_torch(found), wanted)
        fresh.update(every_of(1), sw.zeros(2)).wait()
        fresh.evict(fresh.primary_tiles)
    assert path.read_bytes() == values.numpy().tobytes() and scratch.read_bytes() == bytes(32)


def every_of(*codes):
    return TileSelection([codes])
