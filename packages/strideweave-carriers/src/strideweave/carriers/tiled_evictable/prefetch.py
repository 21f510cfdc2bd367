"""Prefetcher: promotions ahead of need, and projections that wait for their own prefetch and for nobody else's."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from ... import forks
from .awaiting import AwaitProjection, AwaitResidency
from .selection import TileSelection, as_tile_set
from .tile_set import TileSet, of_codes

if TYPE_CHECKING:
    from ...tensor import Tensor
    from ..base import Carrier
    from .carrier import TiledEvictable


class Prefetcher:
    """``Prefetcher(carrier)`` owns the promotions that it starts. One per carrier; safe from many threads.

    ``promote(tiles)`` begins to bring tiles onto primary and returns at once. ``project(...)`` waits, on the calling
    thread, for this prefetcher's unfinished promotions of the tiles it needs, then projects. One that failed is raised
    once, by the first ``project`` of one of its tiles or by ``wait()``, unless its tiles were promoted again.

    Raises:
        TypeError: ``carrier`` is no TiledEvictable.
    """

    def __init__(self, carrier: TiledEvictable) -> None:
        from .carrier import TiledEvictable  # the carrier's module imports this one's package

        if not isinstance(carrier, TiledEvictable):
            raise TypeError(
                f"Prefetcher: expected a TiledEvictable, got {type(carrier).__name__}; of a tensor, pass its carrier"
            )
        self.carrier = carrier
        self._handles: dict[AwaitResidency, frozenset[int]] = {}
        self._lock = threading.Lock()
        forks.renew(self)

    def renew_in_child(self) -> None:
        """In a forked child: a fresh lock, and no promotions, which go on in the parent only."""
        self._lock, self._handles = threading.Lock(), {}

    def promote(self, tiles: TileSet | TileSelection) -> AwaitResidency:
        """Begin to promote those of ``tiles`` that are neither on primary nor on their way there through this.

        Raises as ``TiledEvictable.promote_async``.
        """
        core = self.carrier._core
        codes = as_tile_set(tiles, "Prefetcher.promote").bind(core.geometry, "Prefetcher.promote")
        with self._lock:
            self._forget_done()
            coming = frozenset().union(*[tiles for h, tiles in self._handles.items() if not h.done])
            missing = [c for c in codes if c not in coming and core.table.peek(c).primary is None]
            handle = self.carrier.promote_async(of_codes(missing, core.geometry))
            if missing:
                core.stats.prefetching(missing)
                again = frozenset(missing)
                for before in [h for h, tiles in self._handles.items() if tiles & again]:
                    del self._handles[before]
                self._handles[handle] = again
        return handle

    def project(
        self, tensor: Tensor, selection: TileSelection, destination: Carrier | None = None, **options: Any
    ) -> AwaitProjection:
        """Wait for this prefetcher's overlapping promotions, then ``carrier.project``.

        Raises as that; also what a promotion of one of the tiles failed with, once.
        """
        if isinstance(selection, TileSelection):
            wanted = frozenset(selection.bind(self.carrier._core.geometry, "Prefetcher.project"))
            self._settle(self._overlapping(wanted))
        return self.carrier.project(tensor, selection, destination, **options)

    def _overlapping(self, wanted: frozenset[int]) -> list[AwaitResidency]:
        with self._lock:
            self._forget_done()
            return [handle for handle, codes in self._handles.items() if codes & wanted]

    def _forget_done(self) -> None:
        for handle in [h for h in self._handles if h.done and h._completion.error is None]:
            del self._handles[handle]

    def _settle(self, handles: list[AwaitResidency]) -> None:
        for handle in handles:
            try:
                handle.wait()
            finally:
                # An interrupt of the wait leaves one that goes on.
                if handle.done:
                    with self._lock:
                        self._handles.pop(handle, None)

    def wait(self) -> None:
        """Wait for every promotion that this prefetcher began; a failed one is raised, the next at the next call."""
        with self._lock:
            handles = list(self._handles)
        self._settle(handles)
