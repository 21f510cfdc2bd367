"""Moves that need no help: one run of bytes between memory that can be copied as it lies.

What such a move costs beside its bytes is Python alone, as much as a megabyte takes on a link, so everything is looked
at once, in place, and the bookkeeping of a blocking device copy is done while it runs. Whatever is out of the ordinary
in any way goes the long way of ``move``, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .. import seam
from ..carriers.base import Carrier
from ..carriers.cpu import CPU
from ..carriers.file_backed import FileBacked
from ..carriers.hostmemory import view
from ..tensor import Tensor
from . import parallel
from .completion import AwaitMove, Completion
from .pool import CHUNK, checkpoint, pool
from .transfer import Run, copy_runs


class Straight(Protocol):
    """Copies between carriers of one pair of classes, which the caller holds."""

    grows = False
    """Whether an empty target is given room first; others go the long way."""

    def start(self, source: Any, target: Any, at: int, nbytes: int) -> Any:
        """Copy from byte ``at`` to the front, or begin to; the result is for ``finish``. What raises has ended.

        None, with nothing changed, where these two cannot be copied between without help.
        """
        ...

    def finish(self, begun: Any) -> None:
        """Return once everything is in place."""
        ...

    def submit(self, source: Any, target: Any, at: int, nbytes: int, flight: Flight) -> bool:
        """Begin to copy and have ``flight.ended`` called at the end; False where that takes another way."""
        ...


class Flight:
    """A move under way: what is held for it, and what it will give."""

    __slots__ = ("completion", "keep", "result", "source", "target")

    def __init__(self, source: Carrier, target: Carrier, result: Tensor) -> None:
        self.source, self.target, self.result = source, target, result
        self.completion: Completion[Tensor] = Completion()
        self.keep: Any = None
        """What must not be given back before the end."""

    def ended(self, error: BaseException | None) -> None:
        """Let both carriers go and settle; called once, from any thread."""
        self.target.drop_write(error is None)
        self.source.drop_read()
        if error is None:
            self.completion.resolve(self.result)
        else:
            self.completion.reject(error)


Result = Callable[[Tensor, Carrier], Tensor]

_table: dict[tuple[type, type], Straight] = {}


def register_straight(source: type, target: type, how: Straight) -> None:
    """Say how bytes get from ``source`` to ``target`` where nothing stands in the way."""
    _table[source, target] = how


def move_straight(tensor: Any, carrier: Any, finished: Result) -> Tensor | None:
    """A blocking move whose result ``finished`` makes; None, with nothing changed, where it takes the long way."""
    how = _table.get((type(tensor._carrier), type(carrier))) if type(tensor) is Tensor else None
    if how is None:
        return None
    source: Carrier = tensor._carrier
    if not _hold(source, carrier):
        return None
    need: int = tensor._layout._extent[1]
    grew = wrote = False
    try:
        if not _has_room(carrier, need, how.grows):
            return None
        size = carrier._dtype.itemsize
        if how.grows:
            carrier.grow(need)
            grew = True
        begun = how.start(source, carrier, tensor._offset * size, need * size)
        if begun is None:
            return None
        try:
            result = finished(tensor, carrier)
        finally:
            how.finish(begun)
        wrote = True
        return result
    finally:
        if grew and not wrote:
            carrier.grow(0)
        carrier.drop_write(wrote)
        source.drop_read()


def begin_straight(tensor: Any, carrier: Any, finished: Result) -> AwaitMove[Tensor] | None:
    """A move that runs by itself; None, with nothing changed, where it takes the long way."""
    how = _table.get((type(tensor._carrier), type(carrier))) if type(tensor) is Tensor else None
    if how is None or how.grows:
        return None
    source: Carrier = tensor._carrier
    if not _hold(source, carrier):
        return None
    need, begun = tensor._layout.cosize(), False
    try:
        if not _has_room(carrier, need, False):
            return None
        size = carrier._dtype.itemsize
        flight = Flight(source, carrier, finished(tensor, carrier))
        begun = how.submit(source, carrier, tensor._offset * size, need * size, flight)
        return AwaitMove(flight.completion) if begun else None
    finally:
        if not begun:
            carrier.drop_write(False)
            source.drop_read()


def _hold(source: Carrier, target: Carrier) -> bool:
    """Hold both for a move, if neither check nor wait stands in the way."""
    if target is source or target._dtype is not source._dtype or not source.try_hold_for_read():
        return False
    if target.try_hold_for_write():
        return True
    source.drop_read()
    return False


def _has_room(target: Carrier, need: int, grows: bool) -> bool:
    return target.size() == 0 if grows else target.size() >= need


class HostStraight:
    """Between carriers in host memory."""

    grows = False

    def start(self, source: CPU, target: CPU, at: int, nbytes: int) -> bool | None:
        """See ``Straight.start``: the whole copy."""
        origin, goal = source._flat.data_ptr(), target._flat.data_ptr()
        if goal < origin + source.nbytes() and origin < goal + target.nbytes():
            return None
        seam.enter("submit")
        if nbytes > CHUNK:
            copy_runs(source, target, (Run(at, 0, nbytes),))
        else:
            seam.enter("copy")
            checkpoint()
            parallel.copy(goal, origin + at, nbytes)
        return True

    def finish(self, begun: bool) -> None:
        """See ``Straight.finish``."""

    def submit(self, source: CPU, target: CPU, at: int, nbytes: int, flight: Flight) -> bool:
        """See ``Straight.submit``: the pool copies."""
        if target.shares_storage(source):
            return False
        seam.enter("submit")
        runs = (Run(at, 0, nbytes),)
        part = pool().submit(lambda: copy_runs(source, target, runs))
        flight.completion.assist(part)
        part.add_callback(lambda: flight.ended(part.error))
        return True


class FileStraight:
    """From a file into host memory that is allocated for it."""

    grows = True

    def start(self, source: FileBacked, target: CPU, at: int, nbytes: int) -> bool:
        """See ``Straight.start``: the whole read, in pieces between which an exit may cut in."""
        seam.enter("submit")
        address = target._flat.data_ptr()
        for done in range(0, nbytes, CHUNK):
            seam.enter("copy")
            checkpoint()
            length = min(CHUNK, nbytes - done)
            source.load_bytes(at + done, view(address + done, length))
        return True

    def finish(self, begun: bool) -> None:
        """See ``Straight.finish``."""

    def submit(self, source: FileBacked, target: CPU, at: int, nbytes: int, flight: Flight) -> bool:
        """See ``Straight.submit``."""
        return False
