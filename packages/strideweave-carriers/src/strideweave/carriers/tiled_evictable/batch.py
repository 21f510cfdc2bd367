"""Batch: tiles that move onto primary together, the tiles they replace, and how both come to be or are undone.

Order of events: replaced dirty tiles are written back; then tiles are loaded into the slots; then, at commit, the
table changes for all of them at once. Before commit the table shows the state as it was. Undoing loads the replaced
tiles into their slots again; where even that fails they are left on secondary, where their values are safe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...movement.completion import Completion
from .mover import Move
from .slots import Slot
from .strips import strips
from .table import TileRecord

if TYPE_CHECKING:
    from .core import Core
    from .request import Request


HEAD = 16 << 20
"""Bytes that a link moves while the rest of a long batch is prepared."""


Load = tuple[TileRecord, "Slot | None", Slot]
"""``(record, source, target)``: a tile moves from ``source`` (None: it is zero) to ``target`` on primary."""


class Victim(NamedTuple):
    """``record`` gives up ``slot`` on primary; ``backup`` is where a dirty one is written, else None."""

    record: TileRecord
    slot: Slot
    backup: Slot | None


class Batch:
    """Loads and victims of one request on one core; ``arrived`` settles once the loads may be used or failed."""

    passive = False
    """Whether readers of primary need not wait for it."""

    def __init__(self, core: Core, request: Request, loads: list[Load], victims: list[Victim]) -> None:
        self.core, self.request = core, request
        self.loads, self.victims = loads, victims
        self.arrived: Completion[None] = Completion()
        self.loaded: Completion[None] = Completion() if request.atomic else self.arrived
        """Settles once the values are in their slots, which for an atomic request is before the commit."""
        self.settled = False
        self.blank = False
        """Whether slots are filled by the request itself, so that nothing is loaded."""
        self._loading = False

    def brings(self, code: int) -> bool:
        """Whether the tile is one that comes onto primary."""
        return any(record.code == code for record, _, _ in self.loads)

    def start(self) -> None:
        """Submit. What this raises means that nothing was submitted."""
        writes = [self.core.move(v.slot, v.backup) for v in self.victims if v.backup is not None]
        if not writes:
            self._load()
        else:
            parts = self.core.mover.copy(writes)
            self.request.submitted = True
            self.request.follow(parts, self._written)

    def start_straight(self) -> None:
        """``start`` where all loads come from one slab into one, and no victim is written back.

        The caller has counted that a promotion begins.
        """
        core, request = self.core, self.request
        _, sources, targets = zip(*self.loads, strict=True)
        origins, at = zip(*sources, strict=True)
        goals, to = zip(*targets, strict=True)
        # Before the copy: it may have arrived before this thread goes on.
        self._loading = request.submitted = True
        try:
            core.mover.carry(
                *(origins[0], goals[0], strips(at, to), core.tile_bytes),
                *(self._loaded, request.completion),
            )
        except BaseException:
            self._loading = request.submitted = False
            core.stats.loaded(0)
            raise

    def _written(self, error: BaseException | None) -> None:
        if error is not None:
            self._arrive(error)
            return
        self.core.stats.stored(self.victims, self.core.tile_bytes)
        try:
            self._load()
        except BaseException as failure:
            self._arrive(failure)

    def _load(self) -> None:
        if self.blank:
            self._loading = self.request.submitted = True
            self._arrive(None)
            return
        mover, background, loads = self.core.mover, self.request.independent, self.loads
        self.core.stats.loading()
        try:
            first = HEAD // self.core.tile_bytes + 1
            if len(loads) <= 2 * first:
                first = len(loads)
            # The link is busy with these while the others are sorted.
            copies, zeros = self._sources(loads[:first])
            parts = mover.copy(copies, background) if copies else []
        except BaseException:
            self.core.stats.loaded(0)
            raise
        self._loading = True
        self.request.submitted = True
        if first < len(loads):
            copies, more = self._sources(loads[first:])
            zeros += more
            parts += mover.guarded_copy(copies, background)
        if zeros:
            parts.append(mover.guarded_compute(lambda: self.core.clear(zeros)))
        self.request.follow(parts, lambda error: self._loaded(error))

    def _sources(self, loads: Sequence[Load]) -> tuple[list[Move], list[Slot]]:
        """What to copy, and the slots to clear."""
        size = self.core.tile_bytes
        copies: list[Move] = []
        zeros: list[Slot] = []
        for _, source, target in loads:
            if source is None:
                zeros.append(target)
            else:
                slab, to = source.slab, target.slab
                copies.append((slab.carrier, to.carrier, source.place * size, target.place * size, size))
        return copies, zeros

    def _loaded(self, error: BaseException | None) -> None:
        moved = 0 if error is not None else sum([source is not None for _, source, _ in self.loads])
        self.core.stats.loaded(moved * self.core.tile_bytes)
        self._arrive(error)

    def _arrive(self, error: BaseException | None) -> None:
        if self.request.atomic:
            if error is None:
                self.loaded.resolve(None)
            else:
                self.loaded.reject(error)
            # Its request commits or undoes all its batches together, once every one has come this far.
            self.request.end(error)
        elif error is not None:
            self.roll_back(error, lambda: self.request.end(error))
        else:
            self.commit()
            self.request.end()

    def commit(self) -> None:
        """Make the loads resident and the victims not, all at once."""
        with self.core.lock:
            self.apply()
        self.announce()

    def apply(self) -> None:
        """The table's part of ``commit``; under the lock."""
        core = self.core
        for victim in self.victims:
            core.table.displace(victim.record)
            if victim.backup is not None:
                victim.record.secondary, victim.record.dirty = victim.backup, False
            victim.record.transit = None
        core.table.place_all(self.loads)
        core.placed([v.record.code for v in self.victims], False)
        core.placed([record.code for record, _, _ in self.loads], True)
        self.settled = True

    def announce(self) -> None:
        """Let go on what waited for the batch."""
        self.arrived.resolve(None)
        self.core.poke()

    def roll_back(self, error: BaseException, then: Callable[[], None]) -> None:
        """Restore the state before the batch, then settle ``arrived`` with ``error`` and call ``then``."""
        back = [v for v in self.victims if self._loading]
        if not back:
            self._undo([], error, then)
            return
        kept = [(v.backup or v.record.secondary, v.slot) for v in back if not v.record.is_zero()]
        moves = [self.core.move(source, slot) for source, slot in kept if source is not None]
        zeros = [v.slot for v in back if v.record.is_zero()]

        def restored(failure: BaseException | None) -> None:
            self._undo([] if failure is None else back, error, then)

        try:
            parts = self.core.mover.copy(moves) if moves else []
            if zeros:
                parts = [*parts, self.core.mover.guarded_compute(lambda: self.core.clear(zeros))]
        except BaseException as failure:
            restored(failure)
        else:
            self.request.follow(parts, restored)

    def _undo(self, lost: list[Victim], error: BaseException, then: Callable[[], None]) -> None:
        core = self.core
        taken = {v.slot for v in self.victims}
        with core.lock:
            for victim in self.victims:
                victim.record.transit = None
                if victim in lost:
                    core.table.displace(victim.record)
                    core.give_primary(victim.slot)
                    if victim.backup is not None:
                        victim.record.secondary, victim.record.dirty = victim.backup, False
                elif victim.backup is not None and victim.backup != victim.record.secondary:
                    core.give_secondary(victim.backup)
            for record, _, target in self.loads:
                record.transit = None
                if target not in taken:
                    core.give_primary(target)
            self.settled = True
        self.arrived.reject(error)
        then()
