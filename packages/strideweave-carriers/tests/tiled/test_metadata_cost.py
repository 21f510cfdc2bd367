"""What is known of a carrier costs the same for ten tiles as for 10**12. Oracle: Python calls, counted on both."""

from __future__ import annotations

import gc
import sys

import pytest

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet


class Counted(sw.Carrier):
    """Slots that are only counted."""

    def __init__(self, n):
        super().__init__(sw.Float32, True)
        self._n = n

    def size(self):
        return self._n

    def allocate_like(self, n, *, mutable=True, dtype=None, empty=False):
        raise AssertionError("nothing is allocated")

    def load_bytes(self, offset, into):
        raise AssertionError("nothing is read")

    def store_bytes(self, offset, data):
        raise AssertionError("nothing is written")

    def free_storage(self):
        pass


sw.register_host_carrier(Counted)


def over(grid, **options):
    size = 4
    for extent in grid:
        size *= extent
    return TiledEvictable(sw.CPU(0), Counted(size), grid, (2, 2), **options)


def calls(act) -> int:
    """Calls of Python and of C functions that ``act`` makes."""
    count = 0

    def note(frame, event, _):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    # What others left behind may otherwise be finalized at any call.
    gc.disable()
    sys.setprofile(note)
    try:
        act()
    finally:
        sys.setprofile(before)
        gc.enable()
    return count


GRIDS = ((2, 5), (10**6, 10**6))

ACTS = {
    "layouts": lambda c: (c.canonical_layout(), c.row_major_layout(), c.logical_shape, c.size()),
    "full tensor": lambda c: c.full_tensor(
        sw.Layout(c.canonical_layout().shape, c.canonical_layout().stride)
    ),
    "names": lambda c: (repr(c), repr(c.full_tensor())),
    "state": lambda c: c.tile_state((1, 2)),
    "sets": lambda c: (c.primary_tiles, c.dirty_tiles),
    "counters": lambda c: (c.stats(), c.timeline_svg(), c.timeline_html(), c.chrome_trace()),
    "binding": lambda c: TileSelection([[1, 0], [2]]).bind(c.geometry),
    "nothing to do": lambda c: (c.evict(TileSet([(0, 1)])), c.promote(TileSet()), c.wait_idle()),
    "refusals": lambda c: refused(c),
}


def refused(carrier):
    for act in (
        lambda: carrier.project(carrier.full_tensor(), TileSelection([[0], [carrier.grid_shape[1]]])),
        lambda: carrier.promote(TileSet([(0,)])),
        lambda: carrier.full_tensor(sw.Layout(carrier.logical_shape)),
    ):
        with pytest.raises(ValueError):
            act()


def warm(act, carrier) -> int:
    """The calls of a later time: what is imported or kept at the first, or done for another test, is not counted."""
    act(carrier)
    return min(calls(lambda: act(carrier)) for _ in range(3))


@pytest.mark.parametrize("name", ACTS)
def test_the_same_calls_whatever_the_grid(name):
    small, huge = (warm(ACTS[name], over(grid)) for grid in GRIDS)
    assert small == huge > 0


@pytest.mark.parametrize(
    "act", [lambda c: c, lambda c: c.release()], ids=["construction", "construction and release"]
)
def test_the_same_calls_from_the_beginning_to_the_end(act):
    options = {"primary_capacity": 4, "residency_policy": sw.LRU(2)}
    small, huge = (warm(lambda g: act(over(g, **options)), grid) for grid in GRIDS)
    assert small == huge > 0
