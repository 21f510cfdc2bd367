"""Tiles that pass primary in several groups, one after another. Oracle: torch, whatever the size of a group is."""

from __future__ import annotations

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, core
from strideweave.testing import sweep

EIGHT = TileSelection([[5, 0, 7, 2, 1, 6, 3, 4], [0], [0]])
BYTES = 24
"""Of one tile."""


@pytest.fixture(params=[1, 2, 3])
def group(request, monkeypatch):
    """How many tiles pass at once."""
    monkeypatch.setattr(core, "STAGE", request.param * BYTES + 1)
    return request.param


def make(tiled, **options):
    return tiled.make((8, 1, 1), layout=TiledEvictable.row_major_layout, primary_capacity=1, **options)


def test_as_much_passes_as_primary_may_hold_or_little_or_one_tile(tiled, monkeypatch):
    monkeypatch.setattr(core, "LITTLE", 2 * BYTES)
    counts = {
        c: tiled.make((8, 1, 1), primary_capacity=c).carrier._core.staged_at_once() for c in (1, 2, 5, None)
    }
    assert counts == {1: 2, 2: 2, 5: 5, None: 8}
    monkeypatch.setattr(core, "STAGE", BYTES // 2)
    assert tiled.make((8, 1, 1)).carrier._core.staged_at_once() == 1


@pytest.mark.spec("A93", "PRJ.result")
@pytest.mark.parametrize("order", ["canonical", "tile"])
def test_projections_in_groups(tiled, group, order):
    made = make(tiled)
    compact = made.carrier.project(made.tensor, EIGHT, order=order).wait()
    full = tiled.dense(made.tensor, made.values)
    assert made.carrier._core.staged_at_once() == group
    assert torch.equal(tiled.by_mode(compact), full[list(EIGHT.per_axis[0])])
    assert len(made.carrier.primary_tiles) == 1


@pytest.mark.spec("SCT.add", "SCT.replace")
@pytest.mark.parametrize("reduction", ["replace", "add"])
def test_scatters_gradients_and_operations_in_groups(tiled, group, reduction):
    made, values = make(tiled), torch.randn(8, 3, 2)
    full, order = tiled.dense(made.tensor, made.values), list(EIGHT.per_axis[0])
    piece = sw.from_torch(values)
    result = made.carrier.scatter(piece, made.tensor, EIGHT, reduction).wait()
    back = result.carrier.project(result, EIGHT).wait()
    assert torch.equal(tiled.by_mode(back), values + full[order] * (reduction == "add"))
    assert len(result.carrier.primary_tiles) == 1
    weight = torch.randn(8, 3, 2)
    for _ in range(2):
        # The second is added to the first tile by tile.
        sw.mul(back, sw.from_torch(weight)).backward(sw.ones((8, 3, 2)), retain_graph=True)
        back = result.carrier.project(result, EIGHT).wait()
    assert torch.equal(sw.to_torch(piece.grad), 2 * weight)
    flat = sw.Tensor(sw.CPU(48).new_like([1.0] * 48), 0, sw.Layout(made.tensor.shape))
    made.tensor.grad = None
    sw.relu(made.tensor).backward(flat)
    gradient = made.tensor.grad
    assert len(gradient.carrier.primary_tiles) == 1
    assert torch.equal(tiled.by_mode(gradient.carrier.project(gradient, EIGHT).wait()), torch.ones(8, 3, 2))
    assert torch.equal(tiled.by_mode(sw.add(made.tensor, made.tensor)), 2 * full)


@pytest.mark.spec("LIFE.failure", "A42")
@pytest.mark.parametrize("request_of", ["project", "scatter", "add"])
def test_a_group_that_fails_leaves_everything_as_before(tiled, group, request_of):
    made, piece = make(tiled), sw.ones((8, 3, 2))
    before = tiled.snapshot(made.carrier)
    call = {
        "project": lambda: made.carrier.project(made.tensor, EIGHT),
        "scatter": lambda: made.carrier.scatter(piece, made.tensor, EIGHT),
        "add": lambda: made.carrier.scatter(piece, made.tensor, EIGHT, "add"),
    }[request_of]

    def verify():
        made.carrier.wait_idle()
        made.carrier.evict(EIGHT)
        assert tiled.snapshot(made.carrier) == before and piece.carrier.is_mutable()
        assert not any(r.needed() or r.transit for r in made.carrier._core.table.touched())

    assert sweep(lambda: call().wait(), verify) >= 7 // group
