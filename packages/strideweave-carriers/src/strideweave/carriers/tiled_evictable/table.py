"""The tile table: where each tile's value is, and who needs it. Pure bookkeeping under the owner's lock.

Tiles that were never touched have no record; they are in the table's initial state, so a table costs what
was touched, not what the grid holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal

from .slots import Slab, Slot

Location = Literal["primary", "secondary", "both", "none"]
Initial = Literal["invalid", "zero", "primary", "secondary"]


@dataclass(frozen=True, slots=True)
class TileState:
    """What is visible of one tile. ``none`` with ``valid`` is an implicit zero."""

    location: Location
    valid: bool
    dirty: bool


class TileRecord:
    """One touched tile. A clean tile on primary without a secondary slot is a promoted zero."""

    __slots__ = ("claim", "code", "dirty", "primary", "secondary", "stamp", "transit", "users", "valid")

    def __init__(
        self, code: int, valid: bool, dirty: bool, primary: Slot | None, secondary: Slot | None
    ) -> None:
        self.code, self.valid, self.dirty = code, valid, dirty
        self.primary, self.secondary = primary, secondary
        self.stamp = 0
        """When it was last used, on a clock that all tables share."""
        self.users: dict[Any, None] = {}
        """Requests that need the value."""
        self.transit: Any = None
        """The batch that is moving it into or out of primary."""
        self.claim: Any = None
        """The caller's promotion or eviction that covers it and has not ended."""

    def state(self) -> TileState:
        """The visible part."""
        return TileState(self.location(), self.valid, self.dirty)

    def location(self) -> Location:
        """Which tiers hold the value."""
        if self.primary is not None:
            return "primary" if self.secondary is None else "both"
        return "none" if self.secondary is None else "secondary"

    def is_zero(self) -> bool:
        """Whether the value is zero by declaration, held or not held on primary."""
        return self.valid and not self.dirty and self.secondary is None

    def is_free(self) -> bool:
        """Whether nobody needs, moves or has claimed it."""
        return not self.users and self.transit is None and self.claim is None


_clock = count(1)


class TileTable:
    """Records by tile code, and the primary-resident ones from least to most recently used."""

    def __init__(self, tiles: int, initial: Initial, home: Slab | None = None) -> None:
        self.count, self.initial, self.home = tiles, initial, home
        self._records: dict[int, TileRecord] = {}
        self._resident: dict[int, TileRecord] = {}
        self.epoch = 0
        """Advances whenever a tile comes onto primary or leaves it."""

    def __getitem__(self, code: int) -> TileRecord:
        record = self._records.get(code)
        if record is None:
            record = self._records[code] = self._fresh(code)
            if record.primary is not None:
                self._resident[code] = record
        return record

    def _fresh(self, code: int) -> TileRecord:
        if self.initial == "primary":
            return TileRecord(code, True, True, Slot(self.home, code), None)  # type: ignore[arg-type] # primary has a home
        if self.initial == "secondary":
            return TileRecord(code, True, False, None, Slot(self.home, code))  # type: ignore[arg-type] # likewise
        return TileRecord(code, self.initial == "zero", False, None, None)

    def many(self, codes: Iterable[int]) -> list[TileRecord]:
        """The records of ``codes``, kept from now on."""
        get = self._records.get
        return [get(code) or self[code] for code in codes]

    def peek(self, code: int) -> TileRecord:
        """The record, without keeping one that did not exist."""
        return self._records.get(code) or self._fresh(code)

    def touched(self) -> Iterable[TileRecord]:
        """Every record that exists."""
        return self._records.values()

    def select(self, wanted: Callable[[TileRecord], bool]) -> Iterator[int]:
        """The codes of the tiles that ``wanted`` accepts, ascending."""
        if wanted(self._fresh(0)):
            return (c for c in range(self.count) if (r := self._records.get(c)) is None or wanted(r))
        return iter(sorted(c for c, r in self._records.items() if wanted(r)))

    def least_recent(self) -> Iterator[TileRecord]:
        """Primary-resident tiles from least to most recently used; untouched ones count as least recent."""
        if self.initial == "primary" and len(self._records) < self.count:
            for code in range(self.count):
                if code not in self._records:
                    yield self._fresh(code)
        yield from self._resident.values()

    def touch(self, record: TileRecord) -> None:
        """Count ``record``, which is on primary, as the most recently used."""
        self._resident.pop(record.code, None)
        self._resident[record.code] = record
        record.stamp = next(_clock)

    def touch_all(self, records: Iterable[TileRecord]) -> None:
        """``touch`` each, as one use."""
        stamp, resident = next(_clock), self._resident
        for record in records:
            code = record.code
            resident.pop(code, None)
            resident[code] = record
            record.stamp = stamp

    def place_all(self, loads: Iterable[tuple[TileRecord, Any, Slot]]) -> None:
        """``place`` each record at its target, as one use, and end its move."""
        self.epoch += 1
        stamp, resident = next(_clock), self._resident
        for record, _, target in loads:
            code = record.code
            resident.pop(code, None)
            resident[code] = record
            record.primary, record.stamp, record.transit = target, stamp, None

    def place(self, record: TileRecord, slot: Slot) -> None:
        """``record`` is on primary at ``slot`` now."""
        self.epoch += 1
        record.primary = slot
        self.touch(record)

    def displace(self, record: TileRecord) -> Slot:
        """``record`` is on primary no longer; the slot it had."""
        slot = record.primary
        assert slot is not None
        self.epoch += 1
        record.primary = None
        self._resident.pop(record.code, None)
        return slot

    def resident_count(self) -> int:
        """How many tiles are on primary."""
        untouched = self.count - len(self._records) if self.initial == "primary" else 0
        return len(self._resident) + untouched
