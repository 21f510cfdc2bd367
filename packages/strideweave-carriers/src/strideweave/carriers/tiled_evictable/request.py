"""Request: one piece of tiled work from its start to its end, and what it keeps in place meanwhile.

Work is counted: ``begin`` before each part, ``end`` after it, from any thread. When the count reaches nothing the
request concludes once, on the thread that ended last. Nothing here runs under a core's lock except where said.
"""

from __future__ import annotations

import _thread
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ...movement.completion import Completion, when_all
from .table import TileRecord, TileTable

if TYPE_CHECKING:
    from .batch import Batch
    from .core import Core


class Request:
    """Work named ``what`` on ``core``.

    ``independent`` marks the caller's own promotions and evictions, which other work may not silently join.
    ``atomic`` keeps every batch uncommitted until all have arrived. ``keeps`` leaves the pins in place after
    success, until ``close``. At success ``mark`` changes the table, under the lock and together with the commit of an
    atomic request's batches; then ``finish`` gives the result. ``abandon`` runs at failure.
    """

    what: str
    # What nearly every request leaves as it is stands here, and is not set again with each.
    independent = atomic = keeps = submitted = False
    made_room = False
    """Whether tiles of carriers under the same budget were sent away for it."""
    retained: frozenset[int] = frozenset()
    trailing: tuple[int, ...] = ()
    error: BaseException | None = None
    holder: int | None = None
    """The thread whose ``with`` block ends this request, where it is a hold."""

    def __init__(
        self,
        core: Core,
        what: str,
        *,
        independent: bool = False,
        atomic: bool = False,
        keeps: bool = False,
        mark: Callable[[], None] | None = None,
        finish: Callable[[], Any] | None = None,
        abandon: Callable[[], None] | None = None,
    ) -> None:
        self.what = what
        self.independent, self.atomic, self.keeps = independent, atomic, keeps
        self.displaced: list[Any] = []
        """Tiles of other carriers that made room."""
        if mark is not None:
            self.mark = mark
        if finish is not None:
            self.finish = finish
        if abandon is not None:
            self.abandon = abandon
        self._start(core)

    def _start(self, core: Core, parts: int = 1) -> None:
        """Begin with nothing pinned, and ``parts`` of the work begun."""
        self.core = core
        self.cores: tuple[Core, ...] = (core,)
        self.completion: Completion[Any] = Completion()
        self.pinned: list[TileRecord] = []
        self.claimed: list[TileRecord] = []
        self.batches: list[Batch] = []
        self._left = parts
        self._guard = _thread.allocate_lock()

    def mark(self) -> None:
        """Change the table at success; under the lock."""

    def finish(self) -> Any:
        """The result, at success."""

    def abandon(self) -> None:
        """Give back what was taken, at failure."""

    def bring_back(self, then: Callable[[], None]) -> None:
        """At failure: undo what was done to tiles of other carriers that made room, then call on."""
        then()

    # --- under the core's lock ---------------------------------------------------------------------------

    def pin(self, records: Iterable[TileRecord]) -> None:
        """Keep the records' values valid and where they are."""
        for record in records:
            if self not in record.users:
                record.users[self] = None
                self.pinned.append(record)

    def pin_first(self, records: list[TileRecord]) -> None:
        """``pin`` distinct records, as the first that this request does."""
        for record in records:
            record.users[self] = None
        self.pinned = records

    def cover(self, table: TileTable, records: list[TileRecord]) -> None:
        """Pin distinct records that this request has nothing to do with yet, as the caller's promotion or the like."""
        table.disturb()
        for record in records:
            record.claim = self
            record.users[self] = None
        self.claimed += records
        self.pinned += records

    def let_go(self) -> None:
        """Drop pins and claims."""
        for record in self.pinned:
            record.users.pop(self, None)
        for record in self.claimed:
            if record.claim is self:
                record.claim = None
        self.pinned, self.claimed = [], []

    # --- from any thread, without locks ------------------------------------------------------------------

    def begin(self) -> None:
        """One more part of the work has begun."""
        with self._guard:
            self._left += 1

    def unbegin(self) -> None:
        """The part that was begun last never ran; others are still under way."""
        with self._guard:
            self._left -= 1

    def end(self, error: BaseException | None = None) -> None:
        """One part has ended; the first failure becomes the request's."""
        with self._guard:
            if error is not None and self.error is None:
                self.error = error
            self._left -= 1
            last = self._left == 0
        if last:
            self._conclude()

    def follow(self, parts: list[Completion[None]], then: Callable[[BaseException | None], None]) -> None:
        """Call ``then`` once all ``parts`` have settled; a thread that waits for the request helps with them."""
        for part in parts:
            self.completion.assist(part)
        when_all(parts, then)

    def guarded(self, part: Callable[[], None]) -> None:
        """Run ``part``, which begins further work, and end it, failed if it raises."""
        try:
            part()
        except BaseException as error:
            self.end(error)
        else:
            self.end()

    def close(self) -> None:
        """End a request that keeps its pins."""
        self._retire()

    def _conclude(self) -> None:
        if self.error is not None:
            self._fail()
            return
        waiting = self.batches if self.atomic else ()
        with self.core.lock:
            for batch in waiting:
                batch.apply()
            self.mark()
        for batch in waiting:
            batch.announce()
        result = self.finish()
        if self.keeps:
            self.completion.resolve(result)
        else:
            self._retire(announce=lambda: self.completion.resolve(result))

    def _fail(self) -> None:
        error = self.error
        assert error is not None
        open_batches = [b for b in self.batches if not b.settled]
        left = [len(open_batches) + 1]

        def one_undone() -> None:
            with self._guard:
                left[0] -= 1
                last = left[0] == 0
            if last:
                self.trailing = ()
                self.bring_back(lambda: self._retire(announce=self._rejected))

        for batch in open_batches:
            batch.roll_back(error, one_undone)
        one_undone()

    def _rejected(self) -> None:
        assert self.error is not None
        self.completion.reject(self.error)

    def _retire(self, announce: Callable[[], None] = lambda: None) -> None:
        if self.error is not None:
            self.abandon()
        for core in self.cores:
            with core.lock:
                self.let_go()
        trailing = self.core.start_trailing(self, self.trailing)
        for core in self.cores:
            core.retire(self)
        announce()
        for core in self.cores:
            core.poke()
        trailing()

    def withdraw(self, error: BaseException | None) -> None:
        """Undo a request that nothing was submitted for; the call itself raises ``error``, or goes another way."""
        for batch in self.batches:
            assert error is not None
            batch.roll_back(error, lambda: None)
        with self.core.lock:
            self.let_go()
        for core in self.cores:
            core.retire(self)
        self.abandon()
        for core in self.cores:
            core.poke()
