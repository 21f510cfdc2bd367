"""The dict of tiles that a tiled carrier is compared with: values, residency, and the order of replacement."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy

from ..carriers.tiled_evictable import ResidencyPlan, TileSet

Code = int


@dataclass
class ModelTile:
    """What one tile must be."""

    value: numpy.ndarray | None = None
    primary: bool = False
    secondary: bool = False
    dirty: bool = False


class Chooser:
    """A policy that gives the plan it was told to give, once."""

    def __init__(self) -> None:
        self.next: ResidencyPlan | None = None
        self.asked: list[tuple[TileSet, str]] = []

    def plan(self, required: TileSet, purpose: str) -> ResidencyPlan:
        """The prepared plan, or an empty one."""
        self.asked.append((required, purpose))
        plan, self.next = self.next, None
        return plan or ResidencyPlan()


@dataclass
class Model:
    """The dict of tiles, and the primary ones from least to most recently used."""

    grid: tuple[int, int]
    tile: tuple[int, int]
    capacity: int
    tiles: dict[Code, ModelTile]
    recent: list[Code] = field(default_factory=list)
    version: int = 0

    def touch(self, code: Code) -> None:
        """``code``, which is on primary, is the most recently used."""
        if code in self.recent:
            self.recent.remove(code)
        self.recent.append(code)

    def make_resident(
        self,
        codes: list[Code],
        must: set[Code],
        pinned: set[Code],
        retained: set[Code] | None = None,
        cache: bool = True,
        leaving: Collection[Code] = (),
    ) -> bool:
        """What a request that reads ``codes`` does to residency; False where it must be refused.

        Without ``cache`` it brings only those in ``must`` onto primary. Those ``leaving`` after it come last.
        """
        missing = []
        for code in codes:
            tile = self.tiles[code]
            if tile.primary:
                self.touch(code)
            elif code in must or (cache and tile.secondary):
                missing.append(code)
        short = len(missing) - (self.capacity - len(self.recent))
        missing.sort(key=lambda c: (c not in must, short > 0 and c in leaving))
        victims = self.victims(short, pinned) if short > 0 else []
        places = self.capacity - len(self.recent) + len(victims)
        needed = sum(c in must for c in missing)
        if needed > places:
            # Tiles that the request only reads give way to those that the policy wants there.
            own = [
                c for c in codes if self.tiles[c].primary and c not in must and c not in (retained or set())
            ]
            own = sorted(dict.fromkeys(own), key=lambda c: self.tiles[c].dirty)[: needed - places]
            victims, places = victims + own, places + len(own)
        if needed > places:
            return False
        for code in victims:
            self.leave(code)
        for code in missing[:places]:
            self.tiles[code].primary = True
            self.touch(code)
        return True

    def victims(self, count: int, pinned: set[Code]) -> list[Code]:
        """Least recently used first, clean before dirty."""
        free = [c for c in self.recent if c not in pinned]
        clean = [c for c in free if not self.tiles[c].dirty]
        dirty = [c for c in free if self.tiles[c].dirty]
        return (clean + dirty)[:count]

    def leave(self, code: Code) -> None:
        """``code`` leaves primary; a dirty value is on secondary then."""
        tile = self.tiles[code]
        if tile.primary:
            tile.primary = False
            tile.secondary = tile.secondary or tile.dirty
            tile.dirty = False
            self.recent.remove(code)

    def write(self, code: Code, value: numpy.ndarray) -> None:
        """``code``, which is on primary, gets a new value."""
        tile = self.tiles[code]
        tile.value, tile.dirty, tile.secondary = value.copy(), True, False
        self.touch(code)
