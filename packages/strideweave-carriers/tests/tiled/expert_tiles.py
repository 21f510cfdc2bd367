"""What tests of tiles that are whole experts share: sets, selections, and the states that tiles can be in."""

from __future__ import annotations

from strideweave.carriers.tiled_evictable import TileSelection, TileSet, TileState


def tiles(*experts):
    return TileSet((e, 0, 0) for e in experts)


def choose(*experts):
    return TileSelection([experts, [0], [0]])


def states(carrier):
    return [carrier.tile_state(carrier.geometry.coordinate(c)) for c in range(carrier.geometry.tile_count)]


BOTH, SECONDARY = TileState("both", True, False), TileState("secondary", True, False)
DIRTY, ZERO = TileState("primary", True, True), TileState("none", True, False)
