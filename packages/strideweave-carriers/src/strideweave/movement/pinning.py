"""Page-locking host memory where it lies, piece by piece, so that devices copy from and to it at full speed.

For memory that tiles are copied from again and again. A chunk is registered by the worker whose copy first touches it,
which takes a little longer than that copy; afterwards copies go straight. Where the system gives no more page-locked
memory the chunk stays as it is and its copies pass through the staging buffers.
"""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import forks
from ..carriers.hostmemory import PAGE
from . import page_locks
from .retirement import retirement
from .transfer import Run

if TYPE_CHECKING:
    import torch

CHUNK = 8 << 20
"""Bytes that are registered at once: the driver does nothing else meanwhile."""


def _lock_pages(address: int, nbytes: int) -> bool:
    return page_locks.lock(address, nbytes) == 0


def owns_pages(flat: torch.Tensor) -> bool:
    """Whether every page that ``flat`` touches belongs to its storage alone."""
    storage = flat.untyped_storage()
    begin, end = flat.data_ptr(), flat.data_ptr() + flat.numel() * flat.element_size()
    if begin == end:
        return False
    first, last = begin // PAGE * PAGE, -(-end // PAGE) * PAGE
    return storage.data_ptr() <= first and last <= storage.data_ptr() + storage.nbytes()


@dataclass(frozen=True, slots=True)
class _Chunks:
    """The locked parts of a tensor that somebody else allocated; see ``Retired``."""

    flat: torch.Tensor
    addresses: list[int]

    def free(self) -> None:
        """Nothing to do: the tensor goes with this object."""


class Pinning:
    """Which chunks of one piece of host memory are page-locked. Safe from any thread."""

    def __init__(self, flat: torch.Tensor) -> None:
        self._start = flat.data_ptr()
        self._base = self._start // PAGE * PAGE
        self._end = -(-(self._start + flat.numel() * flat.element_size()) // PAGE) * PAGE
        self._known: dict[int, bool] = {}
        self._lock = threading.Lock()
        self._locked: list[int] = []
        self._flat, self._retirement = flat, retirement()
        # A finaliser may not call the driver, and copies may be under way.
        self._finalizer = weakref.finalize(self, self._retirement.retire, _Chunks(flat, self._locked))
        # At exit the context goes first; the hook below has unlocked everything by then.
        self._finalizer.atexit = False
        self._born = forks.generation
        _living.add(self)

    def cut(self, runs: Sequence[Run], end: int) -> list[Run]:
        """The runs, cut at chunks, since no copy may reach over two; ``end`` is 0 for sources and 1 for targets."""
        cut: list[Run] = []
        for run in runs:
            done = 0
            while done < run.nbytes:
                at = self._start + run[end] + done - self._base
                length = min(run.nbytes - done, CHUNK - at % CHUNK)
                cut.append(Run(run.source + done, run.target + done, length))
                done += length
        return cut

    def holds(self, runs: Sequence[Run], end: int) -> bool:
        """Whether everything that ``runs`` touch is page-locked."""
        return all(self._known.get(chunk) for chunk in self._chunks(runs, end))

    def make(self, runs: Sequence[Run], end: int) -> bool:
        """Lock what ``runs`` touch; whether all of it is locked. A context is current."""
        self._retirement.start()
        return all(self._lock_chunk(chunk) for chunk in sorted(set(self._chunks(runs, end))))

    def _chunks(self, runs: Sequence[Run], end: int) -> Iterator[int]:
        for run in runs:
            first = (self._start + run[end] - self._base) // CHUNK
            last = (self._start + run[end] + run.nbytes - 1 - self._base) // CHUNK
            yield from range(first, last + 1)

    def _lock_chunk(self, chunk: int) -> bool:
        with self._lock:
            if chunk not in self._known:
                address = self._base + chunk * CHUNK
                self._known[chunk] = _lock_pages(address, min(CHUNK, self._end - address))
                if self._known[chunk]:
                    self._locked.append(address)
            return self._known[chunk]

    def undo(self) -> None:
        """Have everything unlocked, once the devices have done what they were given."""
        with self._lock:
            self._known.clear()
            chunks = _Chunks(self._flat, self._locked[:])
            self._locked.clear()
        if chunks.addresses:
            self._retirement.retire(chunks)

    def unlock_now(self) -> None:
        """Unlock everything, at exit."""
        if self._born == forks.generation:
            while self._locked:
                page_locks.unlock(self._locked.pop())


_living: weakref.WeakSet[Pinning] = weakref.WeakSet()


def _at_exit() -> None:
    for pinning in tuple(_living):
        pinning.unlock_now()


atexit.register(_at_exit)


def _after_fork() -> None:
    """What the parent has locked is its own to unlock, and the child cannot use the driver."""
    _living.clear()


os.register_at_fork(after_in_child=_after_fork)
