"""What policies give up and what gives way to what they want. Oracle: which tiles must be where, and dense values."""

from __future__ import annotations

import threading

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import LRU, TileSelection, TileSet, TileState
from strideweave.testing import gated


@pytest.mark.parametrize("home", ["primary", "secondary"])
def test_a_policy_may_give_up_any_number_of_tiles_after_one_request(home):
    # Clean tiles leave at once, each from within the end of the one before; dirty ones are written back by workers.
    grid = 600
    tiers = {name: sw.CPU(grid if name == home else 0) for name in ("primary", "secondary")}
    carrier = sw.TiledEvictable(*tiers.values(), (grid,), (1,), residency_policy=LRU(10))
    carrier.project(carrier.full_tensor(), TileSelection([range(grid)])).wait()
    carrier.wait_idle()
    assert carrier.primary_tiles == TileSet((k,) for k in range(grid - 10, grid))


@pytest.mark.parametrize("use", ["scatter", "add", "projection", "operation", "backward", "unread backward"])
def test_a_tile_that_a_request_covers_gives_way_to_one_that_the_policy_wants(use):
    # One place, taken by tile 0, which the request covers; the plan wants tile 1 there.
    class Wants:
        promote = ()

        def plan(self, required, purpose):
            return sw.ResidencyPlan(promote=TileSet(self.promote))

    policy = Wants()
    source = torch.tensor([1.0, -2.0, 3.0, -4.0])
    full = sw.TiledEvictable.from_torch(source.clone(), (2,), primary_capacity=1, residency_policy=policy)
    carrier, both = full.carrier, TileSelection([[0, 1]])
    ones = sw.from_torch(torch.ones(4))
    ready = {
        "backward": lambda: carrier.project(full, both).wait(),
        "unread backward": lambda: sw.add(full, full),
    }.get(use, lambda: None)()
    carrier.promote(TileSet([(0,)]))
    policy.promote = ((1,),)
    if use in ("scatter", "add"):
        result = carrier.scatter(ones, full, both, "add" if use == "add" else "replace").wait()
        wanted = source + 1 if use == "add" else torch.ones(4)
        result = result.carrier.project(result, both).wait()
    elif ready is not None:
        ready.backward(ones if use == "backward" else sw.tensor([1.0] * 4, shape=ready.shape))
        result = full.grad.carrier.project(full.grad, both).wait()
        wanted = torch.full((4,), 1.0 if use == "backward" else 2.0)
    else:
        result = carrier.project(full, both).wait() if use == "projection" else sw.mul(full, 2)
        wanted = source if use == "projection" else source * 2
    assert result.tolist() == wanted.tolist()
    assert carrier.primary_tiles == TileSet([(1,)])


class Once:
    """A policy that gives the plan it was told to give, once."""

    next = None

    def plan(self, required, purpose):
        plan, self.next = self.next, None
        return plan or sw.ResidencyPlan()


@pytest.fixture
def leaving():
    """Two places, tiles 0 and 1 on them and dirty; a policy's eviction of tile 0 is held while it writes back."""
    policy = Once()
    full = sw.TiledEvictable.from_torch(torch.arange(8.0), (2,), primary_capacity=2, residency_policy=policy)
    carrier, both = full.carrier, TileSelection([[0, 1]])
    carrier.update(both, sw.tensor([10.0, 11.0, 12.0, 13.0])).wait()
    policy.next = sw.ResidencyPlan(evict=TileSet([(0,)]))
    with gated("copy") as gate:
        carrier.project(full, both).wait()
        assert gate.reached.wait(5)
        yield full, gate
    carrier.wait_idle()


@pytest.mark.parametrize("use", ["promote", "hold", "plan"])
def test_what_must_go_onto_primary_waits_for_tiles_that_a_policy_sends_away(leaving, use):
    full, gate = leaving
    carrier, third = full.carrier, TileSet([(2,)])
    with carrier.hold(TileSet([(1,)])):
        if use == "promote":
            handle = carrier.promote_async(third)
        elif use == "plan":
            carrier.residency_policy.next = sw.ResidencyPlan(promote=third)
            handle = carrier.project(full, TileSelection([[2, 3]]))
        else:
            threading.Timer(0.05, gate.open).start()
            with carrier.hold(third):
                assert carrier.primary_tiles == TileSet([(1,), (2,)])
            return
        assert not handle.done
        gate.open()
        handle.wait()
    assert carrier.primary_tiles == TileSet([(1,), (2,)])


@pytest.mark.parametrize("add", [False, True])
def test_a_tile_may_be_written_while_a_policy_sends_it_away(leaving, add):
    full, gate = leaving
    carrier, zero = full.carrier, TileSelection([[0]])
    handle = carrier.update(zero, sw.tensor([5.0, 6.0]), "add" if add else "replace")
    assert not handle.done and carrier.version == 1
    gate.open()
    handle.wait()
    carrier.wait_idle()
    # The eviction was put off and not dropped: it took the new value.
    assert carrier.tile_state((0,)) == TileState("secondary", True, False) and carrier.version == 2
    assert carrier.project(full, zero).wait().tolist() == ([15.0, 17.0] if add else [5.0, 6.0])


def test_room_that_does_not_come_is_an_error_and_changes_nothing(leaving):
    full, gate = leaving
    carrier = full.carrier
    with carrier.hold(TileSet([(1,)])), pytest.raises(RuntimeError, match=r"2 tile.s. must go onto primary"):
        carrier.promote_async(TileSet([(2,), (3,)]))
    gate.open()
    carrier.wait_idle()
    assert carrier.primary_tiles == TileSet([(1,)])
