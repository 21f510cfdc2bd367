"""What can be seen of a tiled carrier's residency: states and sets of tiles, counters, pictures."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from . import timeline
from .stats import Stats
from .table import TileState
from .tile_set import TileSet, of_codes

if TYPE_CHECKING:
    from .core import Core


class Observed:
    """Views of residency. The members are TiledEvictable's own; each looks at one moment, under its lock."""

    _core: Core

    def tile_state(self, coordinate: Iterable[int]) -> TileState:
        """Location, validity and dirtiness of one tile.

        Raises:
            ValueError: outside the grid.
        """
        (code,) = TileSet([coordinate]).bind(self._core.geometry, "tile_state")
        with self._core.lock:
            return self._core.table.peek(code).state()

    @property
    def primary_tiles(self) -> TileSet:
        """Tiles with a value on primary."""
        return self._select(lambda r: r.primary is not None)

    @property
    def secondary_tiles(self) -> TileSet:
        """Tiles with a current value on secondary."""
        return self._select(lambda r: r.secondary is not None)

    @property
    def valid_tiles(self) -> TileSet:
        """Tiles that may be read; this walks the whole grid where all are valid."""
        return self._select(lambda r: r.valid)

    @property
    def dirty_tiles(self) -> TileSet:
        """Tiles whose only value is on primary."""
        return self._select(lambda r: r.dirty)

    def _select(self, wanted: Any) -> TileSet:
        with self._core.lock:
            return of_codes(self._core.table.select(wanted), self._core.geometry)

    def __repr__(self) -> str:
        core = self._core
        if core.released:
            return f"<{core.name} released>"
        home = core.home
        upper = type(core.primary.prototype).__name__
        lower = type(home.carrier if home is not None else core.secondary.prototype).__name__
        if not core.can_store():
            # Written tiles stay where they are written.
            lower = f"read-only {lower} without overlay"
        elif core.read_only:
            lower = f"read-only {lower} with {type(core.secondary.prototype).__name__} overlay"
        geometry = core.geometry
        return (
            f"<{core.name} {geometry.slots} x {core.dtype}, grid {geometry.grid_shape} of tiles "
            f"{geometry.tile_shape}, {upper} over {lower}>"
        )

    def wait_idle(self) -> None:
        """Block until every request on this carrier has ended, evictions that were put off included.

        Raises:
            RuntimeError: the calling thread is inside a ``hold`` of this carrier, which cannot end meanwhile.
        """
        self._core.wait_idle()

    def stats(self) -> Stats:
        """Counters since construction."""
        with self._core.lock:
            resident, peak = self._core.table.resident_count(), self._core.peak_resident
        return self._core.stats.snapshot(resident, peak)

    def timeline_svg(self) -> str:
        """A picture of which tiles were on primary when."""
        return timeline.timeline_svg(self)

    def timeline_html(self) -> str:
        """A page of that picture and the counters."""
        return timeline.timeline_html(self)

    def chrome_trace(self) -> str:
        """The same as a trace for Chrome's viewer or Perfetto."""
        return timeline.chrome_trace(self)
