"""Tiles over a torch tensor: when its memory is shared, when it is copied. Oracle: writes through torch, and values."""

from __future__ import annotations

import pytest
import torch

from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection

RUNS, CUT = (1, 3, 2), (2, 3, 1)
"""Tiles that are runs of a row-major tensor, and such that are not."""


def experts():
    return torch.arange(24.0).reshape(4, 3, 2)


def values(full):
    carrier = full.carrier
    compact = carrier.project(full, TileSelection([range(n) for n in carrier.grid_shape])).wait()
    return torch.tensor(compact.tolist()).reshape(2, 3, 4).permute(2, 1, 0)


@pytest.mark.parametrize(
    ("tile", "copy", "shared"),
    [(RUNS, None, True), (RUNS, False, True), (RUNS, True, False), (CUT, None, False), (CUT, True, False)],
)
def test_memory_is_shared_where_tiles_are_runs_and_no_copy_is_asked_for(tile, copy, shared):
    source = experts()
    full = TiledEvictable.from_torch(source, tile, copy=copy)
    source[3, 2, 1] = 99.0
    wanted = source if shared else experts()
    assert torch.equal(values(full), wanted)
    full.carrier.set_value(0, -1.0)
    full.carrier.evict(full.carrier.primary_tiles)
    assert source.view(-1)[0] == (-1.0 if shared else 0.0)


def test_what_must_be_copied_is_refused_where_no_copy_is_wanted():
    with pytest.raises(
        ValueError, match=r"tiles of \(2, 3, 1\) are no runs of a tensor with strides \(6, 2, 1\)"
    ):
        TiledEvictable.from_torch(experts(), CUT, copy=False)
    with pytest.raises(TypeError, match="from_torch copy"):
        TiledEvictable.from_torch(experts(), RUNS, copy="no")  # type: ignore[arg-type] # what is refused


@pytest.mark.parametrize("view", ["transposed", "every other", "part", "expanded"])
def test_views_have_the_values_that_torch_shows(view):
    """Those whose tiles lie apart, overlap, or lie in a larger tensor; nothing beside them changes."""
    whole = torch.arange(96.0)
    source = {
        "transposed": lambda: whole[:24].reshape(2, 3, 4).permute(2, 1, 0),
        "every other": lambda: whole.reshape(8, 3, 4)[::2, :, ::2],
        "part": lambda: whole[24:48].reshape(4, 3, 2),
        "expanded": lambda: whole[:6].reshape(1, 3, 2).expand(4, 3, 2),
    }[view]()
    full = TiledEvictable.from_torch(source, RUNS)
    assert torch.equal(values(full), source)
    full.carrier.set_value(0, -1.0)
    full.carrier.evict(full.carrier.primary_tiles)
    assert (whole == -1.0).sum() == (1 if view == "part" else 0)
