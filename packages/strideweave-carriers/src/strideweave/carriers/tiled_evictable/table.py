"""The tile table: where each tile's value is, and who needs it. Pure bookkeeping under the owner's lock.

Tiles that were never touched have no record; they are in the table's initial state, so a table costs what
was touched, not what the grid holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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


class Group:
    """Tiles that are pinned and used together, at the cost of one: each record knows its groups, and those their pins.

    Under the owner's lock, like the records. The table pins it; see ``TileTable.enter_pins``.
    """

    __slots__ = ("_dropped", "_records", "pins", "rooted")

    what = "project"

    def __init__(self, records: Sequence[TileRecord] = ()) -> None:
        self._records = records
        self.pins = 0
        self.rooted = False
        """Whether every record knows the group."""
        self._dropped = False

    @property
    def records(self) -> Sequence[TileRecord]:
        """Its tiles."""
        return self._records

    def root(self) -> None:
        """Let every record know the group."""
        self.rooted = True
        for record in self.records:
            if record.groups is None:
                record.groups = {}
            record.groups[self] = None

    def unpin(self) -> None:
        """One pin less."""
        self.pins -= 1
        if self._dropped and not self.pins:
            self.unroot()

    def drop(self) -> None:
        """Nobody will pin the group again."""
        self._dropped = True
        if not self.pins:
            self.unroot()

    def unroot(self) -> None:
        """Let no record know the group any more."""
        if not self.rooted:
            return
        self.rooted = False
        for record in self.records:
            if record.groups is not None:
                record.groups.pop(self, None)


class TileRecord:
    """One touched tile. A clean tile on primary without a secondary slot is a promoted zero."""

    __slots__ = (
        *("claim", "code", "dirty", "groups", "primary", "secondary", "stamp", "transit", "users", "valid"),
    )

    def __init__(
        self, code: int, valid: bool, dirty: bool, primary: Slot | None, secondary: Slot | None
    ) -> None:
        self.code, self.valid, self.dirty = code, valid, dirty
        self.primary, self.secondary = primary, secondary
        self.stamp = 0
        """When it was last used, on a clock that all tables share."""
        self.users: dict[Any, None] = {}
        """Requests that need the value."""
        self.groups: dict[Group, None] | None = None
        """Groups that the tile is in, pinned or not; see ``needed``."""
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
        return self.transit is None and self.claim is None and not self.needed()

    def needed(self) -> bool:
        """Whether a request needs the value, by itself or through a group that it pins."""
        return bool(self.users) or (self.groups is not None and self.is_grouped())

    def holders(self) -> list[str]:
        """What keeps it from being free, in words."""
        found = [self.claim.what] if self.claim is not None else []
        found += [user.what for user in self.users]
        if self.is_grouped():
            found.append(Group.what)
        return found if found or self.transit is None else [self.transit.request.what]

    def is_grouped(self) -> bool:
        """Whether a group that is pinned has the tile. Those that are not are forgotten until they are again."""
        for group in tuple(self.groups or ()):
            if group.pins:
                return True
            # By all its tiles: one that kept it would keep it for good once it is dropped.
            group.unroot()
        return False


_clock = count(1)

LATE = 128
"""Groups whose use is noted before it is entered tile by tile."""


class TileTable:
    """Records by tile code, and the primary-resident ones from least to most recently used."""

    def __init__(self, tiles: int, initial: Initial, home: Slab | None = None) -> None:
        self.count, self.initial, self.home = tiles, initial, home
        self._records: dict[int, TileRecord] = {}
        self._resident: dict[int, TileRecord] = {}
        self.slab: Slab | None = None
        """The slab that tiles were put on first; nearly always there is no other."""
        self.places: dict[int, int] = {}
        """The tiles that have a record and are on that slab, and where."""
        self.epoch = 0
        """Advances whenever a tile comes onto primary, leaves it, or is about to."""
        self._late: dict[Group, int] = {}
        """Groups that were used since the order was last brought up to date, with the time."""
        self._pinned: dict[Group, None] = {}
        """Groups that are pinned and that their records do not know of."""

    def __getitem__(self, code: int) -> TileRecord:
        record = self._records.get(code)
        if record is None:
            record = self._records[code] = self._fresh(code)
            if record.primary is not None:
                self._resident[code] = record
                self._note(code, record.primary)
        return record

    def _note(self, code: int, slot: Slot) -> None:
        if self.slab is None:
            self.slab = slot.slab
        if slot.slab is self.slab:
            self.places[code] = slot.place

    def _fresh(self, code: int) -> TileRecord:
        if self.initial == "primary":
            return TileRecord(code, True, True, Slot(self.home, code), None)  # type: ignore[arg-type] # primary has a home
        if self.initial == "secondary":
            return TileRecord(code, True, False, None, Slot(self.home, code))  # type: ignore[arg-type] # likewise
        return TileRecord(code, self.initial == "zero", False, None, None)

    def many(self, codes: Sequence[int]) -> list[TileRecord]:
        """The records of ``codes``, kept from now on."""
        found = list(map(self._records.get, codes))
        if all(found):
            return found  # type: ignore[return-value] # none is None
        return [record or self[code] for record, code in zip(found, codes, strict=True)]

    def peek(self, code: int) -> TileRecord:
        """The record, without keeping one that did not exist."""
        return self._records.get(code) or self._fresh(code)

    def lacks(self, code: int) -> bool:
        """Whether the tile is not on primary, as a hint that needs no lock."""
        record = self._records.get(code)
        return self.initial != "primary" if record is None else record.primary is None

    def touched(self) -> Iterable[TileRecord]:
        """Every record that exists."""
        self.enter_pins()
        return self._records.values()

    def pin(self, group: Group) -> None:
        """Keep the values of the group's tiles valid and where they are, until ``unpin``."""
        group.pins += 1
        if not group.rooted:
            self._pinned[group] = None

    def unpin(self, group: Group) -> None:
        """Undo one ``pin``."""
        group.unpin()
        if not group.pins:
            self._pinned.pop(group, None)

    def enter_pins(self) -> None:
        """Let records know of groups that are pinned, which is put off until somebody asks what needs a tile.

        To be called before that is asked; most gathers end before anybody does.
        """
        for group in self._pinned:
            group.root()
        self._pinned.clear()

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
        self._settle()
        self.enter_pins()
        yield from self._resident.values()

    def touch(self, record: TileRecord) -> None:
        """Count ``record``, which is on primary, as the most recently used."""
        self._settle()
        self._resident.pop(record.code, None)
        self._resident[record.code] = record
        record.stamp = next(_clock)

    def touch_group(self, group: Group) -> None:
        """``touch`` each of the records, all on primary, as one use; they are reordered when the order is asked for."""
        self._late.pop(group, None)
        self._late[group] = next(_clock)
        if len(self._late) > LATE:
            self._settle()

    def _settle(self) -> None:
        """Enter the uses of groups, oldest first: of several uses of a tile the last is what counts."""
        if not self._late:
            return
        resident = self._resident
        for group, stamp in self._late.items():
            for record in group.records:
                code = record.code
                resident.pop(code, None)
                resident[code] = record
                record.stamp = stamp
        self._late.clear()

    def disturb(self) -> None:
        """Tiles are claimed or begin to move: what was known about where tiles lie is to be looked up again."""
        self.epoch += 1

    def place_all(self, loads: Iterable[tuple[TileRecord, Any, Slot]]) -> None:
        """``place`` each record at its target, as one use, and end its move."""
        self._settle()
        self.epoch += 1
        stamp, resident = next(_clock), self._resident
        for record, _, target in loads:
            code = record.code
            self._note(code, target)
            resident.pop(code, None)
            resident[code] = record
            record.primary, record.stamp, record.transit = target, stamp, None

    def place(self, record: TileRecord, slot: Slot) -> None:
        """``record`` is on primary at ``slot`` now."""
        self.epoch += 1
        record.primary = slot
        self._note(record.code, slot)
        self.touch(record)

    def displace(self, record: TileRecord) -> Slot:
        """``record`` is on primary no longer; the slot it had."""
        slot = record.primary
        assert slot is not None
        self._settle()
        self.epoch += 1
        record.primary = None
        self._resident.pop(record.code, None)
        self.places.pop(record.code, None)
        return slot

    def resident_count(self) -> int:
        """How many tiles are on primary."""
        untouched = self.count - len(self._records) if self.initial == "primary" else 0
        return len(self._resident) + untouched
