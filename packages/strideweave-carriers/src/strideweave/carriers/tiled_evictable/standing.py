"""Where the tiles of a selection lie on primary, kept between requests for as long as nothing comes there or leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .slots import Slab
from .table import Group, TileRecord

if TYPE_CHECKING:
    from .core import Core

KEPT = 256
"""Selections per carrier whose places are remembered."""


class Standing(Group):
    """The tiles ``codes``, in compact order, at rows ``places`` of ``slab`` while the table's ``epoch`` lasts."""

    __slots__ = ("codes", "epoch", "index", "places", "slab")

    def __init__(
        self,
        codes: Sequence[int],
        epoch: int,
        records: tuple[TileRecord, ...],
        slab: Slab,
        places: tuple[int, ...],
    ) -> None:
        super().__init__(records)
        self.codes, self.epoch = codes, epoch
        self.slab, self.places = slab, places
        self.index: tuple[Any, Any] | None = None
        """Where the tiles were gathered last, and ``places`` as an index tensor that is complete there."""


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
    records = core.table.many(codes)
    slots = [record.primary for record in records]
    first = slots[0]
    if first is None or None in slots:
        return None
    slab = first.slab
    places = tuple([place for lies, place in slots if lies is slab])  # type: ignore[misc] # none of them is None
    if len(places) < len(slots):
        return None
    # Where nothing but such gathers is under way no tile is claimed or moves.
    if core.deferred or len(core.active) > core.gathering:
        for record in records:
            if record.claim is not None or record.transit is not None:
                return None
    if len(core.standing) >= KEPT:
        core.forget_standing()
    # Under the tuple's identity: a selection gives the same one each time, and it lives as long as the entry.
    before = core.standing.pop(id(codes), None)
    if before is not None:
        before.drop()
    found = core.standing[id(codes)] = Standing(codes, core.table.epoch, tuple(records), slab, places)
    return found
