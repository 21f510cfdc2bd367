"""Eviction: tiles that leave primary together, once nobody needs them.

A caller's eviction conflicts with later requests for its tiles; a policy's trailing eviction never does: readers
go on using primary while it writes back, and then it waits until they have ended. An eviction that makes room for a
request gives up where a tile is needed after all: waiting there could close a circle, since whoever needs the tile may
itself wait for room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...movement.completion import Completion, when_all
from .batch import Victim
from .table import TileRecord

if TYPE_CHECKING:
    from .core import Core


class Eviction:
    """The eviction of ``codes`` from ``core``; ``completion`` settles at its end."""

    def __init__(self, core: Core, what: str, codes: tuple[int, ...], passive: bool) -> None:
        self.core, self.what, self.codes = core, what, codes
        self.passive = passive
        self.independent = not passive
        self.request = self
        self.yields = False
        self.completion: Completion[Any] = Completion()
        self.arrived: Completion[None] = Completion()
        self.passed: Completion[None] = Completion()
        """Settles when what is under way has passed: the tiles have left, or stay for now. Another one each time."""
        self.started = False
        """Whether its tiles are on the way; it may be reset, so without the lock this is a hint."""
        self._victims: list[Victim] = []

    @classmethod
    def trailing(cls, core: Core, after: str, code: int) -> Eviction:
        """Enter the eviction of one tile that a policy wants after a request."""
        eviction = cls(core, f"the policy's eviction after a {after}", (code,), True)
        with core.lock:
            core.deferred[eviction] = None
        return eviction

    @classmethod
    def for_room(cls, core: Core, request: str, code: int) -> Eviction:
        """Enter the eviction of one tile whose place a request wants; it ends without effect where it cannot start."""
        eviction = cls.trailing(core, request, code)
        eviction.what = f"the eviction that makes room for a {request}"
        eviction.yields = True
        return eviction

    def brings(self, code: int) -> bool:
        """An eviction brings nothing onto primary."""
        return False

    def displaced(self) -> Sequence[Victim]:
        """What it took off primary, once it has ended."""
        return self._victims if self.completion.error is None else ()

    def leaving(self) -> int:
        """How many places are about to be free because nobody needs the tiles that have them; under the lock."""
        if not self.started or not self.passive:
            return 0
        return sum(not v.record.needed() and v.record.claim is None for v in self._victims)

    # --- life --------------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Cover the tiles as the caller's eviction; under the lock."""
        self.core.deferred[self] = None
        self.core.table.disturb()
        for code in self.codes:
            self.core.table[code].claim = self

    def try_start(self) -> None:
        """Begin, if no tile is needed or moved by anyone else; otherwise a later ``poke`` tries again."""
        try:
            begun = self._reserve()
        except BaseException as error:
            self._end(error)
            return
        if begun:
            self._submit()
        elif self.yields and self._give_up():
            self._end(None)

    def _give_up(self) -> bool:
        """Leave the queue, if nobody began or ended this in the meantime."""
        with self.core.lock:
            idle = not self.started and self in self.core.deferred
            if idle:
                del self.core.deferred[self]
            return idle

    def _reserve(self) -> bool:
        core = self.core
        while True:
            with core.lock:
                if self.started or self not in core.deferred:
                    return False
                core.table.enter_pins()
                records = [core.table[c] for c in self.codes if self._concerns(core.table.peek(c))]
                if any(self._in_the_way(r) for r in records):
                    return False
                backups = 0 if core.home_writable else sum(r.dirty for r in records)
                missing = core.secondary.missing(backups)
                if not missing:
                    self._take(records)
                    return True
            core.grow(0, missing)

    def _concerns(self, record: TileRecord) -> bool:
        """Whether the tile is on primary or on its way there."""
        return record.primary is not None or record.transit is not None

    def _in_the_way(self, record: TileRecord) -> bool:
        return record.needed() or record.transit is not None or record.claim not in (None, self)

    def _take(self, records: list[TileRecord]) -> None:
        self.started = True
        self.passed = Completion()
        self.core.table.disturb()
        for record in records:
            assert record.primary is not None
            backup = self.core.backup_slot(record) if record.dirty else None
            self._victims.append(Victim(record, record.primary, backup))
            record.transit = self

    def _submit(self) -> None:
        core = self.core
        moves = [core.move(v.slot, v.backup) for v in self._victims if v.backup is not None]
        if not moves:
            self._written(None)
            return
        try:
            parts = core.mover.copy(moves, self.passive)
        except BaseException as error:
            self._written(error)
        else:
            for part in parts:
                self.completion.assist(part)
                self.passed.assist(part)
            when_all(parts, self._written)

    def _written(self, error: BaseException | None) -> None:
        passed = self.passed
        if error is not None:
            self._undo()
            self._end(error)
        else:
            self.core.stats.stored(self._victims, self.core.tile_bytes)
            if self._commit():
                self._end(None)
            else:
                self.core.poke()
        passed.resolve(None)

    def _undo(self) -> None:
        with self.core.lock:
            for victim in self._victims:
                victim.record.transit = None
                if victim.backup is not None:
                    self.core.give_secondary(victim.backup)

    def _commit(self) -> bool:
        """The tiles have left primary; False if a reader came meanwhile, so that this waits for it."""
        core = self.core
        with core.lock:
            core.table.enter_pins()
            for victim in self._victims:
                record = victim.record
                record.transit = None
                if victim.backup is not None:
                    record.secondary, record.dirty = victim.backup, False
            if self.passive and any(v.record.needed() or v.record.claim for v in self._victims):
                self.started, self._victims = False, []
                return False
            for victim in reversed(self._victims):
                core.give_primary(core.table.displace(victim.record))
            core.placed([v.record.code for v in self._victims], False)
            return True

    def _end(self, error: BaseException | None) -> None:
        core = self.core
        with core.lock:
            core.deferred.pop(self, None)
            for code in self.codes:
                record = core.table.peek(code)
                if record.claim is self:
                    record.claim = None
            core.idle.notify_all()
        if error is None:
            self.arrived.resolve(None)
            self.completion.resolve(None)
        else:
            self.arrived.reject(error)
            self.completion.reject(error)
        core.poke()
