"""Moves that need no help: one run of bytes between memory that can be copied as it lies.

What such a move costs beside its bytes is Python alone, as much as a megabyte takes on a link, so everything is looked
at once, in place, and the bookkeeping of a blocking device copy is done while it runs. A copy drives code out of the
caches too: each function that is called around it, and be it to do nothing, takes most of a microsecond, so a move by
the host calls few. Whatever is out of the ordinary in any way goes the long way of ``move``, which says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import memmove
from typing import Any, Protocol

from .. import seam
from ..carriers.base import Carrier
from ..carriers.cpu import CPU, WHOLE_PAGES
from ..carriers.file_backed import FileBacked
from ..carriers.pages import Pages
from ..carriers.pairs import drop_pair, try_hold_pair
from ..tensor import Tensor, made
from . import parallel, pool
from .completion import AwaitMove
from .flight import Flight
from .pool import CHUNK
from .transfer import Run, copy_runs

Result = Callable[[Tensor, Carrier], Tensor]


class Straight(Protocol):
    """Copies between carriers of one pair of classes, which the caller holds; the target is in torch storage.

    ``at`` is the byte of the source from which ``nbytes`` go to the target's front.
    """

    grows = False
    """Whether the target gets fresh room: one that is empty or has as many slots; others go the long way."""

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
    if how is None or carrier is source or carrier._dtype is not source._dtype:
        return None
    if not try_hold_pair(source, carrier):
        return None
    result = None
    try:
        need = tensor._layout._extent[1]
        if carrier._count < need if not how.grows else carrier._count not in (0, need):
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
    if how is None or how.grows or carrier is source or carrier._dtype is not source._dtype:
        return None
    if not try_hold_pair(source, carrier):
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


class HostStraight:
    """Between carriers in host memory."""

    grows = False

    def perform(
        self, tensor: Tensor, source: CPU, target: CPU, at: int, nbytes: int, finished: Result
    ) -> Tensor | None:
        """See ``Straight.perform``."""
        # Not ``host_address``: two calls less.
        pages, room, size = source._pages, target._pages, source._dtype.itemsize
        origin = source._flat.data_ptr() if pages is None else pages.address
        goal = target._flat.data_ptr() if room is None else room.address
        if goal < origin + source._count * size and origin < goal + target._count * size:
            return None
        if seam.hook is not None:
            seam.enter("submit")
        if nbytes > parallel.ALONE:
            copy_runs(source, target, (Run(at, 0, nbytes),))
        else:
            _copy(goal, origin + at, nbytes)
        return finished(tensor, target) if tensor._differentiable else made(target, tensor._layout)

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
        """See ``Straight.submit``: the pool copies, or the thread that waits where the pool has not come to it."""
        if target.shares_storage(source):
            return False
        origin, goal = source.host_address() + at, target.host_address()
        seam.enter("submit")
        flight.tensor = finished(tensor, target) if tensor._differentiable else made(target, tensor._layout)
        if nbytes > parallel.ALONE:
            runs = (Run(at, 0, nbytes),)
            job = pool.pool().post(lambda: copy_runs(source, target, runs), flight.ended)
        else:
            job = pool.pool().post(lambda: _copy(goal, origin, nbytes), flight.ended)
        flight.assist(job)
        return True


def _copy(goal: int, origin: int, nbytes: int) -> None:
    if seam.hook is not None:
        seam.enter("copy")
    if pool.exiting:
        pool.checkpoint()
    memmove(goal, origin, nbytes)


def _read(source: FileBacked, at: int, room: memoryview) -> None:
    if seam.hook is not None:
        seam.enter("copy")
    if pool.exiting:
        pool.checkpoint()
    source._extents.read(at, room)


def _read_all(source: FileBacked, at: int, nbytes: int, room: memoryview) -> None:
    if nbytes <= CHUNK:
        _read(source, at, room)
        return
    for start in range(0, nbytes, CHUNK):
        _read(source, at + start, room[start : start + CHUNK])


class FileStraight:
    """From a file into host memory that is made for it, so that a read that fails leaves no half of it."""

    grows = True

    def perform(
        self, tensor: Tensor, source: FileBacked, target: CPU, at: int, nbytes: int, finished: Result
    ) -> Tensor | None:
        """See ``Straight.perform``: reads in pieces between which an exit may cut in."""
        if target._count:
            return self._replace(tensor, source, target, at, nbytes, finished)
        done = 0
        try:
            room = target.grow_to_fill(nbytes // target._dtype.itemsize)
            if seam.hook is not None:
                seam.enter("submit")
            _read_all(source, at, nbytes, room)
            result = finished(tensor, target) if tensor._differentiable else made(target, tensor._layout)
            done = nbytes
            return result
        finally:
            if done < nbytes:
                target.grow(0)

    def _replace(
        self, tensor: Tensor, source: FileBacked, target: CPU, at: int, nbytes: int, finished: Result
    ) -> Tensor | None:
        if nbytes < WHOLE_PAGES or not target.may_change_memory():
            return None
        pages = Pages(nbytes)
        if seam.hook is not None:
            seam.enter("submit")
        _read_all(source, at, nbytes, pages.room)
        result = finished(tensor, target) if tensor._differentiable else made(target, tensor._layout)
        target._set_pages(pages, target._count)
        return result

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
