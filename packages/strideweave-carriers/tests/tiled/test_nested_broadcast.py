"""Operands that broadcast leaf by leaf inside a mode. Oracle: torch on the leaves, values and gradients."""

from __future__ import annotations

from math import prod

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

import strideweave as sw
from strideweave.carriers.tiled_evictable import (
    TiledEvictable,
    TileSelection,
    core,
    direct,
    direct_gradients,
    irregular,
)


@st.composite
def problems(draw):
    """Per axis: inner leaves, then leaves that count tiles; some places where the other operand is larger."""
    modes = []
    for _ in range(draw(st.integers(1, 2))):
        inner = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
        outer = draw(st.lists(st.integers(1, 3), min_size=1, max_size=2))
        wide = [draw(st.integers(2, 3)) if e == 1 and draw(st.booleans()) else e for e in (*inner, *outer)]
        joined = draw(st.booleans()) and inner[-1] > 1 and outer[0] > 1
        modes.append((inner, outer, wide, joined))
    return modes, draw(st.integers(1, 4)), draw(st.sampled_from(["mul", "add"])), draw(st.booleans())


def leaves(inner, outer, joined):
    """The mode's leaves: the last inner and the first outer one may be one leaf that tiles cut."""
    if joined:
        return [*inner[:-1], inner[-1] * outer[0], *outer[1:]]
    return [*inner, *outer]


def strides(modes):
    """Canonical strides: tile slots first, first mode fastest."""
    step, within = 1, []
    for inner, _, _, _ in modes:
        within.append([])
        for extent in inner:
            within[-1].append(step)
            step *= extent
    between = []
    for _, outer, _, _ in modes:
        between.append([])
        for extent in outer:
            between[-1].append(step)
            step *= extent
    return within, between


def flatten(values):
    return tuple(v for part in values for v in part)


@pytest.mark.spec("OPS.whole")
@settings(max_examples=60, deadline=None)
@given(problems())
def test_values_and_gradients(problem):
    modes, capacity, name, swapped = problem
    within, between = strides(modes)
    shape, stride, other = [], [], []
    for (inner, outer, wide, joined), a, b in zip(modes, within, between, strict=True):
        if joined and prod(outer[:1]) and b[0] != a[-1] * inner[-1]:
            joined = False
        shape.append(tuple(leaves(inner, outer, joined)))
        stride.append(tuple([*a, *b[1:]] if joined else [*a, *b]))
        k = len(inner) - 1
        other.append(tuple([*wide[:k], wide[k] * wide[k + 1], *wide[k + 2 :]] if joined else wide))
    grid = tuple(prod(outer) for _, outer, _, _ in modes)
    tile = tuple(prod(inner) for inner, _, _, _ in modes)
    size = prod(grid) * prod(tile)
    values = torch.randint(-5, 6, (size,)).float()
    secondary = sw.CPU(size)
    secondary.flat().copy_(values)
    carrier = TiledEvictable(sw.CPU(0), secondary, grid, tile, primary_capacity=min(capacity, prod(grid)))
    tiled = carrier.full_tensor(sw.Layout(tuple(shape), tuple(stride)))
    wide_extents = flatten(other)
    dense = torch.randint(-5, 6, (prod(wide_extents),)).float()
    mate = sw.Tensor(sw.from_torch(dense.clone()).carrier, 0, sw.Layout(tuple(other)))

    mine = values.as_strided(flatten(shape)[::-1], flatten(stride)[::-1]).clone().requires_grad_()
    theirs = dense.view(wide_extents[::-1]).clone().requires_grad_()
    expected = mine * theirs if name == "mul" else mine + theirs
    weight = torch.randint(-5, 6, tuple(expected.shape)).float()
    expected.backward(weight)

    with pytest.MonkeyPatch.context() as patch:
        for module in (direct, direct_gradients):
            patch.setattr(module, "gather_pinned", lambda *_: pytest.fail("gathered whole"))
        operation = getattr(sw, name)
        result = operation(mate, tiled) if swapped else operation(tiled, mate)
        result.backward(
            sw.Tensor(sw.from_torch(weight.reshape(-1).clone()).carrier, 0, sw.Layout(tuple(other)))
        )
    assert result.shape.extents == tuple(other)
    assert torch.equal(torch.tensor(result.tolist()), expected.detach().reshape(-1))
    assert carrier.stats().peak_resident_tiles <= capacity
    gradient = tiled.grad
    whole = gradient.carrier.project(gradient, TileSelection([range(n) for n in grid])).wait()
    # The compact tensor is dense: its modes in order are the leaves' coordinates in order.
    assert torch.equal(torch.tensor(whole.tolist()), mine.grad.reshape(-1))
    assert torch.equal(torch.tensor(mate.grad.tolist()), theirs.grad.reshape(-1))


def straddled(leaves, tile):
    """Whether a tile's end lies within a leaf and does not divide it."""
    for extent in leaves:
        if tile % extent and extent % tile:
            return True
        tile = tile // extent if tile % extent == 0 else 1
    return False


def noted(values, sizes):
    """``values``, whose number is added to ``sizes``."""
    sizes.append(values.numel())
    return values


@st.composite
def uneven_problems(draw):
    """One axis of leaves that tiles cut anywhere, another of single-row tiles; where the other operand is larger."""
    leaves = [draw(st.integers(1, 3)) for _ in range(draw(st.integers(1, 3)))]
    leaves.insert(draw(st.integers(0, len(leaves))), 1)
    leaves.insert(draw(st.integers(0, len(leaves))), draw(st.integers(2, 5)))
    wide = [draw(st.integers(1, 3)) if e == 1 else e for e in leaves]
    size = prod(leaves)
    tiles = [n for n in range(1, size + 1) if size % n == 0]
    uneven = [n for n in tiles if straddled(leaves, n)]
    tile = draw(st.sampled_from(uneven or tiles))
    rows = draw(st.integers(1, 3))
    both = draw(st.booleans())
    kind = draw(st.sampled_from(["mul", "add"]))
    return (
        leaves,
        wide,
        tile,
        rows,
        draw(st.integers(1, 3)),
        kind,
        both,
        draw(st.sampled_from([1, 3, 8, 1000])),
    )


@pytest.mark.spec("OPS.whole")
@settings(max_examples=80, deadline=None)
@given(uneven_problems())
@example(([1, 2, 5], [3, 2, 5], 5, 1, 1, "mul", False, 8))
def test_tiles_that_are_no_boxes_of_leaves(problem):
    """They are read by index, one at a time: nothing is gathered whole, and capacity bounds what is on primary.

    No step puts more together than a tile of the first tiled operand has, or ``little`` allows.
    """
    leaves, wide, tile, rows, capacity, name, both, little = problem
    size = prod(leaves)
    grid = (size // tile, rows)

    def tiled_of(values, extents, tile, grid):
        secondary = sw.CPU(values.numel())
        secondary.flat().copy_(values)
        carrier = TiledEvictable(
            sw.CPU(0), secondary, grid, (tile, 1), primary_capacity=min(capacity, prod(grid))
        )
        step, strides = 1, []
        for extent in extents:
            strides.append(step)
            step *= extent
        return carrier.full_tensor(sw.Layout((tuple(extents), rows), (tuple(strides), step)))

    values = torch.randint(-5, 6, (size * rows,)).float()
    tiled = tiled_of(values, leaves, tile, grid)
    dense = torch.randint(-5, 6, (prod(wide) * rows,)).float()
    if both:
        mate = tiled_of(dense, wide, prod(wide), (1, rows))
    else:
        mate = sw.Tensor(sw.from_torch(dense.clone()).carrier, 0, sw.Layout((tuple(wide), rows)))

    mine = values.view(rows, *leaves[::-1]).clone().requires_grad_()
    theirs = dense.view(rows, *wide[::-1]).clone().requires_grad_()
    expected = mine * theirs if name == "mul" else mine + theirs
    weight = torch.randint(-5, 6, tuple(expected.shape)).float()
    expected.backward(weight)

    with pytest.MonkeyPatch.context() as patch:
        for module in (direct, direct_gradients):
            patch.setattr(module, "gather_pinned", lambda *_: pytest.fail("gathered whole"))
        patch.setattr(core, "LITTLE", 4 * little)
        at, sizes = irregular.Picks.at, []
        patch.setattr(irregular.Picks, "at", lambda self, places: noted(at(self, places), sizes))
        result = getattr(sw, name)(tiled, mate)
        weights = sw.from_torch(weight.reshape(-1).clone()).carrier
        result.backward(sw.Tensor(weights, 0, sw.Layout((tuple(wide), rows))))
    # A gradient of the mate, which does not broadcast, is made by its own tiles, of which it has one.
    assert max(sizes, default=0) <= max(tile, little, prod(wide) if both else 0)
    assert result.shape.extents == (tuple(wide), rows)
    assert torch.equal(torch.tensor(result.tolist()), expected.detach().reshape(-1))
    assert tiled.carrier.stats().peak_resident_tiles <= capacity
    for tensor, reference in ((tiled, mine), (mate, theirs)):
        gradient = tensor.grad
        if isinstance(gradient.carrier, TiledEvictable):
            counts = gradient.carrier.grid_shape
            gradient = gradient.carrier.project(gradient, TileSelection([range(n) for n in counts])).wait()
        assert torch.equal(torch.tensor(gradient.tolist()), reference.grad.reshape(-1))
