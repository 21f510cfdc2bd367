"""TiledResidencyFacet: what a tiled carrier's definition offers beyond operations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .selection import as_tile_set
from .transitions import evict, promote

if TYPE_CHECKING:
    from .awaiting import AwaitResidency
    from .core import Core
    from .selection import TileSelection
    from .tile_set import TileSet


class TiledResidencyFacet:
    """Promotion and eviction of tile sets. The methods are TiledEvictable's own."""

    name = "tiled_residency"

    _core: Core

    def promote_async(self, tiles: TileSet | TileSelection) -> AwaitResidency:
        """Begin to bring ``tiles`` onto primary, as one: all of them or, at failure, none.

        Raises:
            TypeError: ``tiles`` is neither a TileSet nor a TileSelection.
            RuntimeError: released; a tile is covered by another promotion or eviction that has not ended, or
                has no value; no place can be had on primary.
            ValueError: a tile outside the grid, or more tiles than ``primary_capacity``.
        """
        codes = self._bind(tiles, "promote")
        return self._await(promote([(self._core, codes)]) if codes else None)

    def evict_async(self, tiles: TileSet | TileSelection) -> AwaitResidency:
        """Begin to take ``tiles`` off primary, as one, dirty ones written back first.

        Tiles that requests still need are waited for. Raises as ``promote_async``; also RuntimeError for a
        dirty tile over a read-only secondary.
        """
        codes = self._bind(tiles, "evict")
        return self._await(evict([(self._core, codes)])[0] if codes else None)

    def promote(self, tiles: TileSet | TileSelection) -> None:
        """``promote_async(tiles).wait()``."""
        self.promote_async(tiles).wait()

    def evict(self, tiles: TileSet | TileSelection) -> None:
        """``evict_async(tiles).wait()``; RuntimeError where the calling thread itself holds one of the tiles."""
        self._core.refuse_in_own_hold("evict", self._bind(tiles, "evict"))
        self.evict_async(tiles).wait()

    def _bind(self, tiles: TileSet | TileSelection, verb: str) -> tuple[int, ...]:
        checked = as_tile_set(tiles, verb)
        self._ready(verb)
        return checked.bind(self._core.geometry, verb)

    def _ready(self, verb: str) -> None:
        raise NotImplementedError  # abstract: the carrier that mixes this in says when it may be used

    def _await(self, completion: object) -> AwaitResidency:
        raise NotImplementedError  # abstract: the carrier that mixes this in makes its handle
