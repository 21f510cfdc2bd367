"""Backward from any root with a gradient in any form: dense, tiled alike, or tiled in another grid. Oracle: torch."""

from __future__ import annotations

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet

SHAPE = ((2, 2), (2, 2))
CORNER = TileSelection([[1], [0, 1]])
EVERY = TileSelection([[0, 1], [0, 1]])

GRIDS = {
    "alike": ((2, 2), (2, 2), sw.Layout(SHAPE, ((1, 4), (2, 8)))),
    "alike, other order": ((2, 2), (2, 2), sw.Layout(SHAPE, ((2, 4), (1, 8)))),
    "as many slots in a tile": ((4, 1), (1, 4), sw.Layout(SHAPE, ((4, 8), (1, 2)))),
    "fewer tiles": ((2, 1), (2, 4), sw.Layout(SHAPE, ((1, 8), (2, 4)))),
    "one tile": ((1, 1), (4, 4), sw.Layout(SHAPE, ((1, 2), (4, 8)))),
}


def given(tiled, form, capacity=None):
    """A gradient of ``SHAPE`` and its values."""
    if form == "dense":
        values = torch.arange(16.0) - 5
        tensor = sw.Tensor(sw.from_torch(values).carrier, 0, sw.Layout(SHAPE))
        return tensor, tiled.dense(tensor, values)
    grid, tile, layout = GRIDS[form]
    made = tiled.make(grid, tile, layout=lambda _: layout, primary_capacity=capacity)
    return made.tensor, tiled.dense(made.tensor, made.values)


def values_of(tiled, gradient):
    carrier = gradient.carrier
    if isinstance(carrier, TiledEvictable):
        gradient = carrier.project(gradient, TileSelection([range(n) for n in carrier.grid_shape])).wait()
    return tiled.by_mode(gradient)


@pytest.mark.parametrize("capacity", [None, 1])
@pytest.mark.parametrize("form", ["dense", *GRIDS])
def test_any_root_takes_a_gradient_in_any_form(tiled, form, capacity):
    gradient, values = given(tiled, form, capacity)

    def source():
        return tiled.make((2, 2), (2, 2), primary_capacity=capacity)

    def form_of(made):
        assert made.tensor.grad.carrier.geometry == made.carrier.geometry
        return values_of(tiled, made.tensor.grad)

    leaf = source()
    leaf.tensor.backward(gradient)
    leaf.tensor.backward(gradient)
    assert torch.equal(form_of(leaf), 2 * values)

    direct = source()
    sw.mul(direct.tensor, 3.0).backward(gradient)
    assert torch.equal(form_of(direct), 3 * values)

    gathered = source()
    compact = gathered.carrier.project(gathered.tensor, EVERY).wait()
    whole = sw.Tensor(sw.from_torch(torch.zeros(16)).carrier, 0, sw.Layout((4, 4)))
    sw.relu(sw.add(compact, whole)).backward(_flat(tiled, gradient, values, form))
    assert torch.equal(form_of(gathered), values)

    template, piece = source(), sw.ones((2, 4))
    template.carrier.scatter(piece, template.tensor, CORNER, "add").wait().backward(gradient)
    assert torch.equal(tiled.by_mode(piece.grad), values[2:])
    kept = torch.zeros(4, 4)
    kept[2:] = values[2:]
    assert torch.equal(form_of(template), kept)


def _flat(tiled, gradient, values, form):
    """The gradient for a root of shape (4, 4): tiled in a grid that leaves modes flat, where it is to be tiled."""
    if form == "dense":
        return sw.Tensor(sw.from_torch(values.t().reshape(-1)).carrier, 0, sw.Layout((4, 4)))
    made = tiled.make((1, 1), (4, 4))
    made.tiers["secondary"].store_bytes(
        0, memoryview(values.t().contiguous().view(torch.uint8).numpy()).cast("B")
    )
    return made.tensor


@pytest.mark.parametrize("policy", [False, True])
def test_a_tiled_gradient_is_left_as_it_was(tiled, policy):
    """It is read once, for the backward that it was given to; its policy is asked as for any tile of a backward."""
    asked = tiled.Recorder() if policy else None
    made = tiled.make((4, 1), (1, 4), primary_capacity=2, residency_policy=asked)
    gradient = sw.Tensor(made.carrier, 0, GRIDS["as many slots in a tile"][2])
    source = tiled.make((2, 2), (2, 2))
    source.tensor.backward(gradient)
    assert made.carrier.version == 0 and len(made.carrier.primary_tiles) <= 2
    assert torch.equal(values_of(tiled, source.tensor.grad), tiled.dense(gradient, made.values))
    if asked:
        assert [(len(required), purpose) for required, purpose in asked.asked] == [(4, "backward")]


def test_a_gradient_without_values_is_refused_before_any_is_written(tiled):
    empty = tiled.make((4, 1), (1, 4), where="none")
    source = tiled.make((2, 2), (2, 2))
    root = sw.relu(source.tensor)
    with pytest.raises(RuntimeError, match=r"backward: gradient: tile \(0, 0\) has no value"):
        root.backward(sw.Tensor(empty.carrier, 0, GRIDS["as many slots in a tile"][2]))
    assert source.tensor.grad is None
    root.backward(given(tiled, "dense")[0])
    assert source.tensor.grad is not None


@pytest.mark.parametrize("prototype", [sw.CPU, lambda n: sw.Generic([0.0] * n)], ids=["cpu", "generic"])
@pytest.mark.parametrize("name", ["add", "reduce_sum", "scaled", "relu", "mul"])
def test_derivatives_that_look_at_no_value_fetch_none(tiled, name, prototype):
    """Oracle: bytes promoted, and where tiles are, after a backward whose operand was evicted."""
    made = tiled.make((2, 2), (2, 2), prototype=prototype)
    other = sw.Tensor(prototype(16), 0, sw.Layout(SHAPE))
    root = {
        "add": lambda: sw.add(made.tensor, other),
        "reduce_sum": lambda: sw.reduce_sum(made.tensor, "a b -> a"),
        "scaled": lambda: sw.mul(2.0, made.tensor),
        "relu": lambda: sw.relu(made.tensor),
        "mul": lambda: sw.mul(made.tensor, other),
    }[name]()
    every = EVERY.tile_set
    made.carrier.evict(every)
    before = made.carrier.stats().bytes_promoted
    ones = prototype(root.size()).new_like([1.0] * root.size())
    root.backward(sw.Tensor(ones, 0, sw.Layout(root.shape)))
    reads = name in ("relu", "mul")
    assert made.carrier.primary_tiles == (every if reads else TileSet())
    assert made.carrier.stats().bytes_promoted - before == (64 if reads else 0)
    assert made.tensor.grad is not None
