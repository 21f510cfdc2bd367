"""Footprint compatibility: the analytic rule against enumeration, and the lines of the acceptance list."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from strideweave.carriers.tiled_evictable import compatibility
from strideweave.carriers.tiled_evictable.compatibility import footprint
from strideweave.carriers.tiled_evictable.geometry import TileGeometry
from strideweave.layout import Layout


def enumerated(layout: Layout, offset: int, geometry: TileGeometry) -> bool:
    """The definition itself: walk every coordinate, collect each tile's slots, compare with its run."""
    modes = layout.modes()
    if tuple(m.size() for m in modes) != geometry.logical_shape:
        return False
    slots: dict[int, list[int]] = {}
    for coordinate in itertools.product(*[range(e) for e in geometry.logical_shape]):
        tile = geometry.code([c // t for c, t in zip(coordinate, geometry.tile_shape, strict=True)])
        slot = offset + sum(m(c) for m, c in zip(modes, coordinate, strict=True))
        slots.setdefault(tile, []).append(slot)
    size = geometry.tile_slots
    return all(sorted(found) == list(range(t * size, (t + 1) * size)) for t, found in slots.items())


def accepted(layout: Layout, offset: int, geometry: TileGeometry) -> bool:
    try:
        footprint(layout, offset, geometry)
    except ValueError:
        return False
    return True


def _factorings(n: int) -> list[tuple[int, ...]]:
    out = [(n,)]
    for d in range(2, n):
        if n % d == 0:
            out += [(d, *rest) for rest in _factorings(n // d)]
    return out


@st.composite
def arbitrary(draw):
    """A grid and a Layout of the right sizes whose leaves and strides are anything plausible."""
    rank = draw(st.integers(1, 3))
    grid = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    tile = draw(st.lists(st.integers(1, 4), min_size=rank, max_size=rank))
    geometry = TileGeometry(grid, tile)
    shape = [draw(st.sampled_from(_factorings(e))) for e in geometry.logical_shape]
    candidates = sorted({d for d in range(geometry.slots + 1) if d == 0 or geometry.slots % d == 0})
    stride = [tuple(draw(st.sampled_from(candidates)) for _ in mode) for mode in shape]
    return Layout(tuple(shape), tuple(stride)), draw(st.sampled_from([0, 0, 0, 1])), geometry


@st.composite
def shuffled(draw):
    """A Layout that is compatible but for at most one changed stride: tiles with leaves in any order."""
    rank = draw(st.integers(1, 3))
    grid = draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    tile = draw(st.lists(st.integers(1, 6), min_size=rank, max_size=rank))
    geometry = TileGeometry(grid, tile)
    leaves = [
        (axis, k, e)
        for axis, t in enumerate(tile)
        for k, e in enumerate(draw(st.sampled_from(_factorings(t))))
    ]
    step, placed = 1, {}
    for axis, k, extent in draw(st.permutations(leaves)):
        placed[axis, k] = (extent, step)
        step *= extent
    modes = []
    for axis, outer in enumerate(geometry.outer_strides()):
        inner = [placed[a, k] for a, k, _ in leaves if a == axis]
        modes.append([*inner, (grid[axis], outer)])
    if draw(st.booleans()):
        mode = draw(st.sampled_from(modes))
        at = draw(st.integers(0, len(mode) - 1))
        mode[at] = (mode[at][0], draw(st.integers(0, 2 * geometry.slots)))
    layout = Layout(
        tuple(tuple(e for e, _ in m) for m in modes), tuple(tuple(s for _, s in m) for m in modes)
    )
    return layout, 0, geometry


@pytest.mark.spec("A18", "FIT.exact", "FIT.order", "FIT.reject")
@settings(max_examples=400)
@given(arbitrary())
@example((Layout(((2, 3), 2), ((2, 1), 6)), 0, TileGeometry((2, 2), (3, 1))))
def test_any_layout_is_judged_as_enumeration_judges_it(case):
    assert accepted(*case) == enumerated(*case)


@pytest.mark.spec("A18", "FIT.exact", "FIT.order", "FIT.reject")
@settings(max_examples=400)
@given(shuffled())
def test_nearly_compatible_layouts_are_judged_as_enumeration_judges_them(case):
    assert accepted(*case) == enumerated(*case)


@pytest.mark.spec("OWN.map")
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3))
def test_the_canonical_layout_is_compatible_and_dense_per_tile(extents):
    geometry = TileGeometry([g for g, _ in extents], [t for _, t in extents])
    layout = geometry.canonical_layout()
    assert enumerated(layout, 0, geometry)
    inner = footprint(layout, 0, geometry)
    assert inner.by_stride() == inner.in_order()


EXPERTS = TileGeometry((3, 1, 1), (1, 4, 2))


@pytest.mark.spec("A9", "FIT.order")
def test_a_permuted_inside_is_accepted():
    assert accepted(Layout((3, 4, 2), (8, 2, 1)), 0, EXPERTS)
    assert accepted(Layout((3, 4, 2), (8, 1, 4)), 0, EXPERTS)


@pytest.mark.spec("A10", "A11", "A12", "A13", "A14", "A15", "FIT.reject")
@pytest.mark.parametrize(
    ("layout", "offset", "says"),
    [
        (Layout((3, 4, 2)), 0, "axis 0"),
        (Layout((3, 4, 2), (8, 0, 1)), 0, "repeats"),
        (Layout((3, 4, 2), (8, 2, 2)), 0, "leaves slots out|repeats"),
        (Layout((3, 4, 2), (16, 2, 1)), 0, "axis 0"),
        (Layout((3, 4, 2), (8, 2, 1)), 1, "offset 1"),
        (Layout((1, 4, 2), (8, 2, 1)), 0, "full logical shape"),
    ],
    ids=["dense over experts", "stride 0", "holes", "remapped tiles", "offset", "one expert"],
)
def test_rejections_name_the_fault(layout, offset, says):
    assert not enumerated(layout, offset, EXPERTS)
    with pytest.raises(ValueError, match=says):
        footprint(layout, offset, EXPERTS, "weight")


@pytest.mark.spec("A13", "FIT.reject")
def test_swapped_grid_strides_are_a_remap():
    geometry = TileGeometry((2, 2), (2, 2))
    good = geometry.canonical_layout()
    swapped = Layout(good.shape, ((1, 8), (2, 4)))
    assert accepted(good, 0, geometry) and not accepted(swapped, 0, geometry)
    assert not enumerated(swapped, 0, geometry)


@pytest.mark.spec("A16", "A17", "FIT.order")
def test_nested_modes_and_leaves_that_coalesce():
    geometry = TileGeometry((2, 2), (3, 2))
    assert accepted(Layout(((3, 2), (2, 2)), ((1, 6), (3, 12))), 0, geometry)
    # Leaves 2 and 3 merge to six slots in a row, which split at the tile extent 3.
    whole = TileGeometry((2,), (3,))
    assert accepted(Layout(((2, 3),), ((1, 2),)), 0, whole)


@pytest.mark.spec("A19", "FIT.exact")
def test_the_work_depends_on_leaves_and_not_on_extents(monkeypatch):
    calls = []
    original = compatibility._coalesced
    monkeypatch.setattr(compatibility, "_coalesced", lambda mode: calls.extend(mode) or original(mode))
    counts = []
    for tile in (4, 10**6):
        geometry = TileGeometry((tile, 1), (1, tile))
        calls.clear()
        footprint(geometry.canonical_layout(), 0, geometry)
        counts.append(len(calls))
    assert math.prod(geometry.logical_shape) == 10**12
    assert counts[0] == counts[1] <= 4
