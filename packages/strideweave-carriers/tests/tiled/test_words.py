"""What a tiled carrier says of itself and of arguments that it does not take. Oracle: the words."""

from __future__ import annotations

import pytest

import strideweave as sw
from strideweave.carriers import tiled_evictable


def test_shown_as_its_tiers_are(tmp_path):
    path = tmp_path / "values"
    path.write_bytes(bytes(64))

    def over(secondary, **options):
        return repr(sw.TiledEvictable(sw.CPU(0), secondary, (4,), (4,), **options))

    said = "<TiledEvictable 16 x Float32, grid (4,) of tiles (4,), CPU over "
    assert over(sw.CPU(16)) == said + "CPU>"
    assert over(sw.FileBacked(path)) == said + "FileBacked>"
    fixed = sw.FileBacked(path, mutable=False)
    assert over(fixed) == said + "read-only FileBacked without overlay>"
    fixed = sw.FileBacked(path, mutable=False)
    assert over(fixed, overlay=sw.CPU(0)) == said + "read-only FileBacked with CPU overlay>"
    carrier = sw.TiledEvictable(sw.CPU(0), sw.CPU(16), (4,), (4,))
    carrier.release()
    assert repr(carrier) == "<TiledEvictable released>"


@pytest.mark.parametrize("capacity", [True, 1.0, "4", [4]])
def test_a_capacity_that_is_no_number_of_tiles(capacity):
    tiers = sw.CPU(0), sw.CPU(16)
    with pytest.raises(TypeError, match="primary_capacity: expected a number of tiles or None, got "):
        sw.TiledEvictable(*tiers, (4,), (4,), primary_capacity=capacity)
    assert not any(tier.is_owned() for tier in tiers)


def test_an_order_that_is_none(tiled):
    made = tiled.make()
    selection = sw.TileSelection([[0], [0], [0]])
    for order in ([], None, 1, True):
        with pytest.raises(TypeError, match="project order: expected 'canonical' or 'tile', got "):
            made.carrier.project(made.tensor, selection, order=order)
    with pytest.raises(ValueError, match="project: order 'rows' is none of canonical, tile"):
        made.carrier.project(made.tensor, selection, order="rows")
    assert not made.carrier.primary_tiles.coordinates


def test_policies_and_sharing_are_names_of_the_package():
    for name in ("LRU", "LFU", "PinSet", "Prefetcher", "Bundle", "DeviceBudget"):
        assert getattr(sw, name) is getattr(tiled_evictable, name) and name in sw.__all__ and name in dir(sw)
    for name in set(tiled_evictable.__all__) & set(sw.__all__):
        assert getattr(sw, name) is getattr(tiled_evictable, name)
