"""Projection: gather selected tiles into a compact tensor, from primary where they are and from elsewhere."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ...movement.completion import Completion
from ..base import Carrier
from .acquire import acquire
from .core import Core
from .gather import gather
from .packing import Packing
from .request import Request
from .slots import Slab, Slot
from .tensors import flat_bits

if TYPE_CHECKING:
    import torch


class Queue:
    """Whether every copy of a projection is submitted, and the events after which they have run.

    Nearly always it is closed when the request returns; only a thread that must wait makes something to wait on.
    """

    __slots__ = ("_closed", "_error", "_guard", "_waiter", "events")

    def __init__(self, events: list[Any]) -> None:
        self.events = events
        self._closed, self._error = False, None
        self._guard = _thread.allocate_lock()
        self._waiter: threading.Event | None = None

    def is_closed(self) -> bool:
        """Whether nothing is left to submit."""
        return self._closed

    def close(self, error: BaseException | None) -> None:
        """Everything is submitted, or never will be; the first call counts."""
        with self._guard:
            if not self._closed:
                self._closed, self._error = True, error
            if self._waiter is not None:
                self._waiter.set()

    def wait(self) -> list[Any]:
        """Block until closed; the events, or the failure."""
        with self._guard:
            if not self._closed and self._waiter is None:
                self._waiter = threading.Event()
        if not self._closed and self._waiter is not None:
            self._waiter.wait()
        if self._error is not None:
            raise self._error
        return self.events


class Projection:
    """The copying part of one projection of ``codes`` (compact order) into ``target``.

    ``keep`` says that the target holds values of its user, which stay until all others are there: it is written by one
    gather, and what does not go onto primary lies in carriers of its own until then.
    """

    def __init__(
        self,
        core: Core,
        request: Request,
        codes: Sequence[int],
        packing: Packing,
        target: Carrier,
        prepared: Any,
        queue: Queue | None = None,
        keep: bool = False,
    ) -> None:
        self.core, self.request, self.packing = core, request, packing
        self.target = target
        self._codes = codes
        self._position: dict[int, int] | None = None
        self.queue = Queue([]) if queue is None else queue
        self._left = len(codes)
        self.prepared = prepared
        self._keep = keep
        self._gathered: list[tuple[int, Slot | None]] = []

    @property
    def position(self) -> dict[int, int]:
        """The compact position of each tile; made when first asked for, mostly by the thread that gathers."""
        found = self._position
        if found is None:
            found = self._position = {code: k for k, code in enumerate(self._codes)}
        return found

    def run(self, codes: Sequence[int], promote: Sequence[int]) -> None:
        """Submit everything; later pieces follow as tiles arrive."""
        extra = tuple(c for c in promote if c not in self.position) if promote else ()
        acquire(self.core, self.request, (*codes, *extra), set(promote), self.use)
        if self._left:
            self.core.mover.seal(self.prepared)

    def use(self, ready: list[tuple[int, Slot]], direct: list[tuple[int, Slot | None]]) -> None:
        """Gather tiles on primary and read the others past it."""
        position = self.position
        mine = [(position[c], s) for c, s in ready if c in position]
        zeros = [position[c] for c, s in direct if s is None]
        stored = [(position[c], s) for c, s in direct if s is not None]
        if self._keep:
            self._await([*mine, *((k, None) for k in zeros)], stored)
            return
        if mine:
            self._compute(lambda out: gather(self.core, mine, out, self.packing), len(mine))
        if zeros:
            self._compute(lambda out: self._clear(out, zeros), len(zeros))
        if stored:
            self._stream(stored)

    # --- all at once -------------------------------------------------------------------------------------

    def _await(self, tiles: Sequence[tuple[int, Slot | None]], stored: Sequence[tuple[int, Slot]]) -> None:
        """Remember where tiles are, None being zero, and fetch those that are not on primary."""
        if stored:
            self._fetch(stored)
        if tiles:
            self._collect(tiles)

    def _fetch(self, stored: Sequence[tuple[int, Slot]]) -> None:
        self.core.stats.add(bytes_streamed=self.core.tile_bytes * len(stored))
        self.request.begin()
        try:
            parts, tiles = self._staging(stored)
        except BaseException as error:
            self._refused(error)
            return
        self.request.submitted = True

        def fetched(error: BaseException | None) -> None:
            if error is not None:
                self.request.end(error)
            else:
                self.request.guarded(lambda: self._collect(tiles))

        self.request.follow(parts, fetched)

    def _collect(self, tiles: Sequence[tuple[int, Slot | None]]) -> None:
        with self.request._guard:
            self._gathered += tiles
            whole = len(self._gathered) == len(self._codes)
        if whole:
            self._compute(self._write, len(self._codes))

    def _write(self, out: torch.Tensor) -> None:
        present = [(k, slot) for k, slot in self._gathered if slot is not None]
        if present:
            gather(self.core, present, out, self.packing)
        self._clear(out, [k for k, slot in self._gathered if slot is None])

    # --- piece by piece ----------------------------------------------------------------------------------

    def _compute(self, job: Callable[[torch.Tensor], None], count: int) -> None:
        self.request.begin()
        try:
            event = self.core.mover.gather(
                lambda: job(flat_bits(self.target)), self.prepared, self.request.end, self.request.completion
            )
        except BaseException as error:
            self._refused(error)
            return
        self.request.submitted = True
        self._enqueued(count, event)

    def _refused(self, error: BaseException) -> None:
        if self.request.submitted:
            self.request.end(error)
            return
        self.request.unbegin()
        raise error

    def _clear(self, out: torch.Tensor, places: Sequence[int]) -> None:
        view = self.packing.by_tile(out)
        for k in places:
            view[self.packing.place(k)].zero_()

    # --- past primary ------------------------------------------------------------------------------------

    def _stream(self, stored: list[tuple[int, Slot]]) -> None:
        size = self.core.tile_bytes
        self.core.stats.add(bytes_streamed=size * len(stored))
        if self.packing.verbatim:
            moves = [(s.slab.carrier, self.target, s.place * size, k * size, size) for k, s in stored]
            self.request.begin()
            try:
                parts = self.core.mover.copy(moves, prepared=self.prepared)
            except BaseException as error:
                self._refused(error)
                return
            self.request.submitted = True
            self.request.follow(parts, lambda error: self._streamed(error, len(stored)))
            return
        per = self.core.staged_at_once()
        groups = [stored[k : k + per] for k in range(0, len(stored), per)]
        self.request.begin()
        try:
            self._stage(groups)
        except BaseException as error:
            self._refused(error)

    def _streamed(self, error: BaseException | None, count: int) -> None:
        self._enqueued(count, None)
        self.request.end(error)

    def _stage(self, groups: list[list[tuple[int, Slot]]]) -> None:
        """Read the first group into a staging carrier, gather it, and go on with the next."""
        parts, tiles = self._staging(groups[0])
        self.request.submitted = True
        self.request.follow(parts, lambda error: self._staged(error, tiles, groups[1:]))

    def _staging(
        self, group: Sequence[tuple[int, Slot]]
    ) -> tuple[list[Completion[None]], list[tuple[int, Slot]]]:
        """Copies of tiles into a carrier of their own, submitted, and where they lie there."""
        core, size = self.core, self.core.tile_bytes
        room = core.mover.allocate(core.primary.prototype, len(group) * core.geometry.tile_slots)
        staged = Slab(room, len(group))
        moves = [(s.slab.carrier, room, s.place * size, k * size, size) for k, (_, s) in enumerate(group)]
        tiles = [(position, Slot(staged, k)) for k, (position, _) in enumerate(group)]
        return core.mover.copy(moves), tiles

    def _staged(
        self, error: BaseException | None, tiles: list[tuple[int, Slot]], rest: list[list[tuple[int, Slot]]]
    ) -> None:
        if error is not None:
            self.request.end(error)
            return

        def more() -> None:
            self._compute(lambda out: gather(self.core, tiles, out, self.packing), len(tiles))
            if rest:
                self.request.begin()
                try:
                    self._stage(rest)
                except BaseException as failure:
                    self.request.end(failure)

        self.request.guarded(more)

    def _enqueued(self, count: int, event: Any) -> None:
        with self.request._guard:
            self._left -= count
            if event is not None:
                self.queue.events.append(event)
            last = self._left == 0
        if last:
            self.queue.close(None)
