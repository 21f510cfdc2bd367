"""Transitions of several carriers as one, where a member refuses. Oracle: everything visible before."""

from __future__ import annotations

import pytest
from expert_tiles import tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import Bundle, TiledEvictable
from strideweave.testing import gated


@pytest.mark.parametrize("fault", ["covered", "dirty over a file"])
def test_a_bundle_evicts_nothing_where_a_member_refuses(tiled, fault, tmp_path):
    """Oracle: everything visible of the member that would have gone first."""
    path = tmp_path / "weights"
    path.write_bytes(bytes(4 * 24))
    first = tiled.make(where="primary")
    second = TiledEvictable(sw.CPU(0), sw.FileBacked(path, mutable=False), (4, 1, 1), (1, 3, 2))
    bundle = Bundle([first.carrier, second])
    if fault != "covered":
        second.set_value(0, 1.0)
    before = tiled.snapshot(first.carrier)
    with gated("copy", "read") as gate:
        handle = second.promote_async(tiles(0, 1)) if fault == "covered" else None
        with pytest.raises(RuntimeError, match=r"incomplete promote.*wait\(\)" if handle else "overlay="):
            bundle.evict_async(tiles(0))
        assert not first.carrier._core.busy()
        assert tiled.snapshot(first.carrier) == before
        gate.open()
        if handle is not None:
            handle.wait()
    if handle is not None:
        bundle.evict(tiles(0))
        assert first.carrier.tile_state((0, 0, 0)).location == "secondary"
