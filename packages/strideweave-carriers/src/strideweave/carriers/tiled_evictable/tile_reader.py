"""Reading and writing whole tiles on the calling thread, for operations and gradients, in bounded groups.

The caller has pinned the tiles. Tiles on primary are used where they lie; others pass through staging.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...movement.completion import Completion
from .core import Core
from .slots import Slab, Slot
from .tensors import tile_rows

if TYPE_CHECKING:
    import torch

Found = dict[int, "Slot | None"]
"""Where tiles can be read; None: it is zero."""


def settle(parts: list[Completion[None]]) -> None:
    """Block until all have settled; raise the first failure."""
    # Nothing here follows a part: an interrupt would end what follows half done, and the wait for it would not end.
    for part in parts:
        part.wait()
    for part in parts:
        part.result()


def groups(core: Core, codes: Sequence[int]) -> Iterator[Sequence[int]]:
    """``codes`` in pieces that fit the staging."""
    per = core.staged_at_once()
    for k in range(0, len(codes), per):
        yield codes[k : k + per]


def locate(core: Core, codes: Sequence[int], found: Found, stored: list[tuple[int, Slot]]) -> None:
    """Enter into ``found`` where each tile lies on primary (None: not there), into ``stored`` those on secondary."""
    with core.lock:
        for code in codes:
            if code in found:
                continue
            record = core.table.peek(code)
            moving = record.transit is not None and not record.transit.passive
            if record.primary is not None and not moving:
                found[code] = record.primary
                continue
            found[code] = None
            if record.secondary is not None:
                stored.append((code, record.secondary))


def staging(core: Core, tiles: int) -> Slab:
    """Fresh room beside primary for so many tiles."""
    return Slab(core.mover.allocate(core.primary.prototype, tiles * core.geometry.tile_slots), tiles)


def fetch(core: Core, stored: Sequence[tuple[int, Slot]], into: Slab) -> tuple[Found, list[Completion[None]]]:
    """Begin to read tiles into staging: where each will lie, and what settles once they do."""
    slots = [Slot(into, k) for k in range(len(stored))]
    parts = core.mover.copy([core.move(s, t) for (_, s), t in zip(stored, slots, strict=True)])
    core.stats.add(bytes_streamed=len(stored) * core.tile_bytes)
    return dict(zip((c for c, _ in stored), slots, strict=True)), parts


def read_tiles(core: Core, codes: Sequence[int]) -> Found:
    """Where each tile can be read: its slot on primary, or one of a fresh staging slab. None: it is zero."""
    found: Found = {}
    stored: list[tuple[int, Slot]] = []
    locate(core, codes, found, stored)
    if stored:
        places, parts = fetch(core, stored, staging(core, len(stored)))
        settle(parts)
        found.update(places)
    return found


def row(core: Core, slot: Slot) -> torch.Tensor:
    """A tile's values, flat, as they lie."""
    return tile_rows(slot.slab, core.geometry, core.dtype)[slot.place].view(core.dtype.torch())


class TileWriter:
    """Fills a core that nobody else knows: on primary while there is room, then on secondary."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def slots(self, codes: Sequence[int]) -> dict[int, Slot]:
        """Where each tile is to be written before ``keep``; on primary, or in staging."""
        core = self.core
        room = min(len(codes), core.room())
        core.grow(core.primary.missing(room), core.secondary.missing(len(codes) - room))
        with core.lock:
            places = {c: core.take_primary() for c in codes[:room]}
        rest = codes[room:]
        if rest:
            staged = staging(core, len(rest))
            places.update({c: Slot(staged, k) for k, c in enumerate(rest)})
        return places

    def keep(self, places: dict[int, Slot]) -> None:
        """The tiles are written: enter them into the table, spilling what is in staging."""
        core = self.core
        mine = set(core.primary.slabs)
        spilled = {c: s for c, s in places.items() if s.slab not in mine}
        with core.lock:
            backups = {c: core.secondary.take() for c in spilled}
        if spilled:
            core.mover.finish()
            settle(core.mover.copy([core.move(s, backups[c]) for c, s in spilled.items()]))
            core.stats.add(bytes_written_back=len(spilled) * core.tile_bytes)
        with core.lock:
            for code, slot in places.items():
                record = core.table[code]
                record.valid = True
                if code in backups:
                    record.secondary = backups[code]
                else:
                    record.dirty = True
                    core.table.place(record, slot)
            core.placed([c for c in places if c not in backups], True)
