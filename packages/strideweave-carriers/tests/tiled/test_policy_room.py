"""What policies give up and what gives way to what they want. Oracle: which tiles must be where, and dense values."""

from __future__ import annotations

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import LRU, TileSelection, TileSet


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
