"""Slot pools: places of one tile each inside slabs, which are carriers of a tier's class.

Bookkeeping only, guarded by the owner's lock; the owner allocates slabs outside the lock and adds them here.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

from ..base import Carrier


class Slab:
    """A carrier that holds ``tiles`` tiles one after another."""

    __slots__ = ("carrier", "route", "rows", "tiles", "wide")

    def __init__(self, carrier: Carrier, tiles: int) -> None:
        self.carrier, self.tiles = carrier, tiles
        self.rows: Any = None
        """The slab as bits, one row per tile, once asked for."""
        self.wide: Any = None
        """The same as the widest words."""
        self.route: Any = None
        """The way that tiles came here last, where a device copies them by itself."""


class Slot(NamedTuple):
    """The place of one tile: number ``place`` of ``slab``."""

    slab: Slab
    place: int


_PLACE = itemgetter(1)


class SlotPool:
    """At most ``limit`` slots, handed out one tile each.

    ``home`` is a slab that the user supplied, with one slot per tile code. ``whole`` asks for all slots at the
    first growth, so that one slab serves every gather; otherwise a pool doubles. ``single`` gives each tile a
    slab of its own, freed with the tile.
    """

    def __init__(self, prototype: Carrier, limit: int, *, whole: bool = False, single: bool = False) -> None:
        self.prototype = prototype
        self.limit = limit
        self.whole = whole
        self.single = single
        self.slabs: list[Slab] = []
        self.used = 0
        self._total = 0
        self._free: list[Slot] = []
        self._sorted = True

    def adopt(self, carrier: Carrier, tiles: int, used: bool) -> Slab:
        """Make a supplied tier the first slab; ``used`` says that every slot holds its own tile."""
        slab = Slab(carrier, tiles)
        self.slabs.append(slab)
        self._total += tiles
        if used:
            self.used += tiles
        else:
            self._free.extend(Slot(slab, i) for i in range(min(tiles, self.limit) - 1, -1, -1))
        return slab

    def room(self) -> int:
        """How many more tiles may be placed."""
        return self.limit - self.used

    def has(self, count: int) -> bool:
        """Whether ``count`` tiles can be placed in slots that exist."""
        return count <= len(self._free) and count <= self.limit - self.used

    def tidy(self) -> None:
        """Order the free slots, so that tiles placed together lie together."""
        self._free.sort(key=_PLACE, reverse=True)
        self._sorted = True

    def missing(self, count: int) -> int:
        """How many slots a growth must add before ``count`` can be taken; ``count`` is at most ``room()``."""
        return max(0, count - len(self._free))

    def available(self) -> int:
        """How many slots can be taken without growing."""
        return len(self._free)

    def growth(self, least: int) -> int:
        """How many slots to add when ``least`` are missing."""
        if self.single:
            return least
        left = max(least, self.limit - self._total)
        return left if self.whole else min(left, max(least, self._total))

    def allocate(self, tiles: int, tile_slots: int, make: Callable[[Carrier, int], Carrier]) -> list[Slab]:
        """Fresh slabs for ``tiles`` tiles; ``make`` calls the provider, so this is done without any lock."""
        count, each = (tiles, 1) if self.single else (1, tiles)
        return [Slab(make(self.prototype, each * tile_slots), each) for _ in range(count)]

    def add(self, slabs: list[Slab]) -> None:
        """Make fresh slabs' slots available."""
        for slab in slabs:
            self.slabs.append(slab)
            self._total += slab.tiles
            self._free.extend(Slot(slab, i) for i in range(slab.tiles - 1, -1, -1))

    def take(self) -> Slot:
        """A free slot; the caller has made sure that there is one."""
        self.used += 1
        return self._free.pop()

    def take_many(self, count: int) -> list[Slot]:
        """``take``, several times: neighbours first, so that tiles placed together move as one run."""
        if not count:
            return []
        if not self._sorted:
            self.tidy()
        self.used += count
        taken = self._free[: -count - 1 : -1]
        del self._free[-count:]
        return taken

    def give(self, slot: Slot) -> None:
        """Return a slot that was taken."""
        self.used -= 1
        if self.single:
            self.slabs.remove(slot.slab)
            self._total -= slot.slab.tiles
            # Dropped, not released: a copy in flight may still refer to it.
        else:
            # Those that are given back last place first, as sets of tiles are, leave nothing to sort.
            self._sorted = self._sorted and not (self._free and self._free[-1].place < slot.place)
            self._free.append(slot)

    def trim(self) -> None:
        """With ``single``, forget slots that were allocated and not taken."""
        if self.single:
            for slot in self._free:
                self.slabs.remove(slot.slab)
                self._total -= slot.slab.tiles
            self._free.clear()

    def carriers(self) -> list[Carrier]:
        """The carriers of all slabs."""
        return [slab.carrier for slab in self.slabs]

    def allocated(self) -> int:
        """Slots that storage exists for."""
        return self._total
