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
from ..carriers.hostmemory import copy
from ..carriers.pairs import drop_pair, try_hold_pair
from ..tensor import Tensor
from . import parallel
from .completion import AwaitMove
from .flight import Flight
from .pool import CHUNK, checkpoint, pool
from .transfer import Run, copy_runs

Result = Callable[[Tensor, Carrier], Tensor]


class Straight(Protocol):
    """Copies between carriers of one pair of classes, which the caller holds; the target is in torch storage.

    ``at`` is the byte of the source from which ``nbytes`` go to the target's front.
    """

    grows = False
    """Whether an empty target is given room first; others go the long way."""

    def perform(
        self, tensor: Tensor, source: Any, target: Any, at: int, nbytes: int, finished: Result
    ) -> Tensor | None:
        """Copy, blocking; what ``finished`` makes of ``tensor``. What raises has ended.

        None, with nothing changed, where these two cannot be copied between without help.
        """
        ...

    def submit(
        self,
        tensor: Tensor,
        source: Any,
        target: Any,
        at: int,
        nbytes: int,
        finished: Result,
        flight: Flight,
    ) -> bool:
        """Begin to copy and have ``flight``, which ``finished`` gives its tensor, end once all is in place.

        False where that takes another way.
        """
        ...


_table: dict[tuple[type, type], Straight] = {}


def register_straight(source: type, target: type, how: Straight) -> None:
    """Say how bytes get from ``source`` to ``target`` where nothing stands in the way."""
    _table[source, target] = how


def move_straight(tensor: Any, carrier: Any, finished: Result) -> Tensor | None:
    """A blocking move whose result ``finished`` makes; None, with nothing changed, where it takes the long way."""
    if type(tensor) is not Tensor:
        return None
    source = tensor._carrier
    how = _table.get((type(source), type(carrier)))
    if how is None or not _alike(source, carrier) or not try_hold_pair(source, carrier):
        return None
    result = None
    try:
        need = tensor._layout._extent[1]
        if carrier._count < need if not how.grows else carrier._count:
            return None
        size = carrier._dtype.itemsize
        result = how.perform(tensor, source, carrier, tensor._offset * size, need * size, finished)
        return result
    finally:
        drop_pair(source, carrier, result is not None)


def begin_straight(tensor: Any, carrier: Any, finished: Result) -> AwaitMove[Tensor] | None:
    """A move that runs by itself; None, with nothing changed, where it takes the long way."""
    if type(tensor) is not Tensor:
        return None
    source = tensor._carrier
    how = _table.get((type(source), type(carrier)))
    if how is None or how.grows or not _alike(source, carrier) or not try_hold_pair(source, carrier):
        return None
    flight, begun = Flight(source, carrier), False
    try:
        need = tensor._layout._extent[1]
        if carrier._count < need:
            return None
        size = carrier._dtype.itemsize
        begun = how.submit(tensor, source, carrier, tensor._offset * size, need * size, finished, flight)
        return AwaitMove(flight) if begun else None
    finally:
        if not begun:
            flight.abandon()


def _alike(source: Carrier, target: Carrier) -> bool:
    return target is not source and target._dtype is source._dtype


class HostStraight:
    """Between carriers in host memory."""

    grows = False

    def perform(
        self, tensor: Tensor, source: CPU, target: CPU, at: int, nbytes: int, finished: Result
    ) -> Tensor | None:
        """See ``Straight.perform``."""
        origin, goal, size = source._flat.data_ptr(), target._flat.data_ptr(), source._dtype.itemsize
        if goal < origin + source._count * size and origin < goal + target._count * size:
            return None
        seam.enter("submit")
        if nbytes > parallel.ALONE:
            copy_runs(source, target, (Run(at, 0, nbytes),))
        else:
            seam.enter("copy")
            checkpoint()
            copy(goal, origin + at, nbytes)
        return finished(tensor, target)

    def submit(
        self,
        tensor: Tensor,
        source: CPU,
        target: CPU,
        at: int,
        nbytes: int,
        finished: Result,
        flight: Flight,
    ) -> bool:
        """See ``Straight.submit``: the pool copies."""
        if target.shares_storage(source):
            return False
        seam.enter("submit")
        flight.tensor = finished(tensor, target)
        runs = (Run(at, 0, nbytes),)
        part = pool().submit(lambda: copy_runs(source, target, runs))
        flight.assist(part)
        part.add_callback(lambda: flight.ended(part.error))
        return True


class FileStraight:
    """From a file into host memory that is allocated for it."""

    grows = True

    def perform(
        self, tensor: Tensor, source: FileBacked, target: CPU, at: int, nbytes: int, finished: Result
    ) -> Tensor:
        """See ``Straight.perform``: reads in pieces between which an exit may cut in."""
        done = 0
        try:
            room = target.grow_to_fill(nbytes // target._dtype.itemsize)
            seam.enter("submit")
            for start in range(0, nbytes, CHUNK):
                seam.enter("copy")
                checkpoint()
                source._extents.read(at + start, room[start : start + CHUNK])
            result = finished(tensor, target)
            done = nbytes
            return result
        finally:
            if done < nbytes:
                target.grow(0)

    def submit(
        self,
        tensor: Tensor,
        source: FileBacked,
        target: CPU,
        at: int,
        nbytes: int,
        finished: Result,
        flight: Flight,
    ) -> bool:
        """See ``Straight.submit``."""
        return False
