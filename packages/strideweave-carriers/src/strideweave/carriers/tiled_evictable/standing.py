"""Where the tiles of a selection lie on primary, kept between requests for as long as nothing comes there or leaves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .slots import Slab
from .table import TileRecord

if TYPE_CHECKING:
    from .core import Core
    from .request import Request

KEPT = 256
"""Selections per carrier whose places are remembered."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The tiles ``codes``, in compact order, at rows ``places`` of ``slab`` while the table's ``epoch`` lasts."""

    codes: Sequence[int]
    epoch: int
    records: tuple[TileRecord, ...]
    slab: Slab
    places: tuple[int, ...]


def pin_resident(core: Core, request: Request, codes: tuple[int, ...], verb: str) -> Standing | None:
    """Pin ``codes`` for ``request`` and count it as begun, if all lie on primary in one slab and none is on the move.

    None means that nothing was changed.

    Raises:
        RuntimeError: a released carrier.
    """
    with core.lock:
        if core.released:
            raise RuntimeError(f"{verb}: this {core.name} was released meanwhile")
        found = core.standing.get(id(codes))
        if found is None or found.codes is not codes or found.epoch != core.table.epoch:
            found = _look(core, codes)
        if found is None:
            return None
        records = found.records
        for record in records:
            if record.claim is not None or record.transit is not None:
                return None
        core.table.touch_all(records)
        for record in records:
            record.users[request] = None
        request.pinned = list(records)
        core.admit(request)
    core.stats.required(len(codes), 0, codes)
    return found


def _look(core: Core, codes: tuple[int, ...]) -> Standing | None:
    records = [core.table[code] for code in codes]
    slabs, places = set(), []
    for record in records:
        if record.primary is None:
            return None
        slabs.add(record.primary.slab)
        places.append(record.primary.place)
    if len(slabs) > 1:
        return None
    if len(core.standing) >= KEPT:
        core.standing.clear()
    # Under the tuple's identity: a selection gives the same one each time, and it lives as long as the entry.
    found = core.standing[id(codes)] = Standing(
        codes, core.table.epoch, tuple(records), slabs.pop(), tuple(places)
    )
    return found
