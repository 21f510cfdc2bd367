"""Reservation: decide, under the lock, where each tile of a request comes from. It changes nothing until it can all.

A tile is *ready* on primary, *direct* (read from secondary, or zero, without going onto primary), loaded by the
request's new batch, or *blocked* behind another batch that is moving it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING

from .batch import Batch, Victim
from .slots import Slot
from .table import TileRecord

if TYPE_CHECKING:
    from .core import Core
    from .eviction import Eviction
    from .request import Request

_CODE, _SECONDARY = attrgetter("code"), attrgetter("secondary")


@dataclass(slots=True)
class Reserved:
    """What became of the codes; ``grow`` (primary, secondary slots) instead of all else when slots are missing."""

    ready: list[tuple[int, Slot]] = field(default_factory=list)
    direct: list[tuple[int, Slot | None]] = field(default_factory=list)
    batch: Batch | None = None
    blocked: list[tuple[int, Batch]] = field(default_factory=list)
    grow: tuple[int, int] | None = None
    leaving: list[Eviction] | None = None
    """Policies' evictions that are about to free the places that are missing, instead of all else."""
    make_room: list[tuple[Core, int]] | None = None
    """Tiles of carriers under one budget that must leave primary first, instead of all else."""


def reserve(
    core: Core, request: Request, codes: Sequence[int], must: Collection[int], cache: bool
) -> Reserved:
    """Sort ``codes``, which the request has pinned; those in ``must`` go onto primary, others may (``cache``).

    Raises:
        RuntimeError: a tile in ``must`` finds no place; the message names who holds what is there.
    """
    found = Reserved()
    wanted: list[TileRecord] = []
    for code, record in zip(codes, core.table.many(codes), strict=True):
        transit = record.transit
        if transit is not None and not (transit.passive and record.primary is not None):
            found.blocked.append((code, transit))
        elif record.primary is not None:
            core.table.touch(record)
            found.ready.append((code, record.primary))
        elif code in must or (cache and record.secondary is not None):
            wanted.append(record)
        else:
            found.direct.append((code, record.secondary))
    if wanted:
        _place(core, request, wanted, must, found)
    return found


def _place(
    core: Core, request: Request, wanted: list[TileRecord], must: Collection[int], found: Reserved
) -> None:
    needed = sum([r.code in must for r in wanted])
    room = core.room()
    # Where not all find a place, those that leave after the request anyway come last.
    leaves = frozenset(request.trailing) if len(wanted) > room else frozenset()
    if leaves or 0 < needed < len(wanted):
        wanted.sort(key=lambda r: (r.code not in must, r.code in leaves))
    if len(wanted) > room and not request.made_room:
        found.make_room = _older_elsewhere(core, len(wanted) - room)
        if found.make_room:
            return
    victims = choose_victims(core, len(wanted) - room) if len(wanted) > room else []
    places = room + len(victims)
    own = _own_victims(core, request, must, found, needed - places) if needed > places else []
    if needed > places + len(own):
        if core.budget is not None and core.primary.room() + len(victims) >= needed:
            found.make_room = core.budget.victims(core, needed - places)
        if not found.make_room:
            found.leaving = _leaving(core, needed - places - len(own))
        if not found.make_room and not found.leaving:
            raise RuntimeError(_shortage(core, needed, places + len(own)))
        return
    victims, places = victims + own, places + len(own)
    placed, rest = wanted[:places], wanted[places:]
    backups = 0 if core.home_writable else sum(v.dirty for v in victims)
    missing = core.primary.missing(len(placed) - len(victims)), core.secondary.missing(backups)
    if any(missing):
        found.grow = missing
        return
    found.direct.extend((r.code, r.secondary) for r in rest)
    if placed:
        found.batch = batch = new_batch(core, request, placed, victims)
        given_up = {r.code for r in own}
        found.ready = [(c, s) for c, s in found.ready if c not in given_up]
        found.blocked.extend((c, batch) for c in given_up)


def new_batch(core: Core, request: Request, placed: list[TileRecord], victims: list[TileRecord]) -> Batch:
    """Enter the batch that loads ``placed`` and replaces ``victims``; under the lock, and there are slots enough."""
    given: list[Victim] = []
    if victims:
        given = [Victim(v, _slot(v), core.backup_slot(v) if v.dirty else None) for v in victims]
    slots = [*[v.slot for v in given], *core.take_many(len(placed) - len(given))]
    # Neighbours below move as one if they are neighbours above; when they were last used is another order.
    by_code = sorted(placed, key=_CODE)
    if by_code != placed:
        at = dict(zip(by_code, slots, strict=True))
        slots = [at[record] for record in placed]
    batch = Batch(core, request, list(zip(placed, map(_SECONDARY, placed), slots, strict=True)), given)
    core.table.disturb()
    for record in placed:
        record.transit = batch
    for record in victims:
        record.transit = batch
    request.batches.append(batch)
    return batch


def _slot(record: TileRecord) -> Slot:
    assert record.primary is not None
    return record.primary


def choose_victims(core: Core, count: int) -> list[TileRecord]:
    """Up to ``count`` tiles to replace: least recently used, clean before dirty."""
    chosen: list[TileRecord] = []
    dirty: list[TileRecord] = []
    for record in core.table.least_recent():
        if record.is_free():
            (dirty if record.dirty else chosen).append(record)
            if len(chosen) == count:
                break
    if len(chosen) < count and core.can_store():
        chosen += dirty[: count - len(chosen)]
    return [core.table[r.code] for r in chosen]


def _older_elsewhere(core: Core, count: int) -> list[tuple[Core, int]] | None:
    """What must leave first so that ``count`` tiles find bytes, where some of it is another member's of the budget."""
    if core.budget is None or core.primary.room() - core.room() < count:
        return None
    chosen = core.budget.victims(core, count)
    return chosen if any(owner is not core for owner, _ in chosen) else None


def _leaving(core: Core, count: int) -> list[Eviction]:
    """The evictions after earlier requests whose tiles are on their way out; none where that is not room enough."""
    core.table.enter_pins()
    found = [eviction for eviction in core.deferred if eviction.leaving()]
    return found if sum(eviction.leaving() for eviction in found) >= count else []


def _own_victims(
    core: Core, request: Request, must: Collection[int], found: Reserved, count: int
) -> list[TileRecord]:
    """Tiles that the request itself needs and a policy wants replaced by others: it reads them past primary then."""
    core.table.enter_pins()
    ready = [core.table[c] for c, _ in found.ready if c not in must and c not in request.retained]
    free = [
        r
        for r in ready
        if len(r.users) == 1
        and not r.is_grouped()
        and r.transit is None
        and (not r.dirty or core.can_store())
    ]
    return sorted(free, key=lambda r: r.dirty)[:count]


def _shortage(core: Core, needed: int, places: int) -> str:
    budget = core.budget
    sharing = (core,) if budget is None else budget.cores
    holders = sorted(
        {what for c in sharing for r in c.table.touched() if r.primary is not None for what in r.holders()}
    )
    dirty = (
        ""
        if core.can_store()
        else "; dirty tiles cannot be written back to a read-only tier without overlay="
    )
    held = f"held by {', '.join(holders) or 'nobody'}{dirty}; wait for that work or raise"
    if budget is not None and core.primary.room() >= needed:
        return (
            f"{core.name}: {needed} tile(s) of {core.tile_bytes} bytes must go onto primary, the budget of "
            f"{budget.nbytes} bytes has {budget.nbytes - budget.used} free, {places} place(s) can be had; "
            f"{held} the budget"
        )
    return (
        f"{core.name}: {needed} tile(s) must go onto primary, {places} of {core.primary.limit} place(s) can be had; "
        f"{held} primary_capacity"
    )
