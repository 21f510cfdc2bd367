"""Where the tiles of a selection lie on primary, kept between requests for as long as nothing comes there or leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .slots import Slab
from .table import Group, TileRecord, TileTable

if TYPE_CHECKING:
    from .core import Core

KEPT = 256
"""Selections per carrier whose places are remembered."""


class Standing(Group):
    """The tiles ``codes``, in compact order, at rows ``places`` of ``slab`` while the table's ``epoch`` lasts."""

    __slots__ = ("_table", "codes", "epoch", "index", "places", "slab")

    def __init__(self, codes: Sequence[int], table: TileTable, slab: Slab, places: tuple[int, ...]) -> None:
        # Not through the class above: one of these is made with every new selection.
        self.pins, self.rooted, self._dropped = 0, False, False
        self.codes, self.epoch, self._table = codes, table.epoch, table
        self.slab, self.places = slab, places
        self.index: tuple[Any, Any] | None = None
        """Where the tiles were gathered last, and ``places`` as an index tensor that is complete there."""

    @property
    def records(self) -> Sequence[TileRecord]:
        """Its tiles; most are gathered and forgotten before anybody asks."""
        return self._table.many(self.codes)


def pin_resident(core: Core, request: Any, codes: tuple[int, ...], verb: str) -> Standing | None:
    """Pin ``codes`` and count ``request`` as begun, if all lie on primary in one slab and none is about to move.

    ``unpin_resident`` undoes it. None means that nothing was changed.

    Raises:
        RuntimeError: a released carrier.
    """
    with core.lock:
        if core.released:
            raise RuntimeError(f"{verb}: this {core.name} was released meanwhile")
        found = core.standing.get(id(codes))
        if found is None or found.epoch != core.table.epoch or found.codes is not codes:
            found = _look(core, codes)
            if found is None:
                return None
        core.table.touch_group(found)
        core.table.pin(found)
        core.active[request] = None
        core.gathering += 1
        core.stats.hit(codes)
    return found


def unpin_resident(core: Core, request: Any, standing: Standing) -> None:
    """The tiles are needed no longer, and the request has ended."""
    with core.lock:
        core.table.unpin(standing)
        core.active.pop(request, None)
        core.gathering -= 1
        core.idle.notify_all()


def _look(core: Core, codes: tuple[int, ...]) -> Standing | None:
    table = core.table
    places = tuple(map(table.places.get, codes))
    if None in places:
        # Tiles of a primary that was supplied have no record before they are first asked for.
        table.many(codes)
        places = tuple(map(table.places.get, codes))
    slab = table.slab
    if slab is None or None in places:
        return None
    # Where nothing but such gathers is under way no tile is claimed or moves.
    if core.deferred or len(core.active) > core.gathering:
        for record in table.many(codes):
            if record.claim is not None or record.transit is not None:
                return None
    if len(core.standing) >= KEPT:
        core.forget_standing()
    # Under the tuple's identity: a selection gives the same one each time, and it lives as long as the entry.
    before = core.standing.pop(id(codes), None)
    if before is not None:
        before.drop()
    found = core.standing[id(codes)] = Standing(codes, table, slab, places)  # type: ignore[arg-type] # none of them is None
    return found
