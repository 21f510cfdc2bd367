"""Host memory copies by several threads, where there are cores to spare.

One core moves some 10 GB/s; a link to a device takes five times that. The helpers run nothing else and wait
for nothing, so a pool worker may wait for them. torch's own threads would do too, but stall for milliseconds
when the cores are busy.
"""

from __future__ import annotations

import os
import threading
from functools import cache, partial

from ..carriers import hostmemory
from .completion import Completion
from .interrupts import interrupts_deferred
from .pool import Pool, registered

ALONE = 8 << 20
"""Up to this many bytes one thread is quickest."""

PAGE = 4096

_helpers: Pool | None = None
_guard = threading.Lock()


@cache
def helper_count() -> int:
    """How many threads help a copy: a quarter of the cores, at most 4."""
    return min(4, (os.cpu_count() or 1) // 4)


def copy(target: int, source: int, nbytes: int) -> None:
    """Copy bytes between addresses; returns when all are in place.

    Raises:
        PoolStopped: the interpreter is exiting. Nobody writes there any more.
    """
    helpers = helper_count()
    if nbytes <= ALONE or helpers == 0:
        hostmemory.copy(target, source, nbytes)
        return
    part = -(-nbytes // (helpers + 1) // PAGE) * PAGE
    waiting: list[Completion[None]] = []
    # Whoever is told that the copy ended may give the memory back: no helper may be at it still, whatever happens here.
    with interrupts_deferred():
        try:
            for start in range(part, nbytes, part):
                span = target + start, source + start, min(part, nbytes - start)
                waiting.append(_pool().submit(partial(hostmemory.copy, *span)))
            hostmemory.copy(target, source, part)
        finally:
            failed = [error for one in waiting if (error := _end_of(one)) is not None]
    if failed:
        raise failed[0]


def _end_of(part: Completion[None]) -> BaseException | None:
    """Block until ``part`` has ended; its failure."""
    try:
        part.result()
    except BaseException as error:
        return error
    return None


def _pool() -> Pool:
    global _helpers
    with _guard:
        if _helpers is None:
            _helpers = registered(Pool(helper_count()))
        return _helpers


def _after_fork() -> None:
    global _helpers, _guard
    _helpers, _guard = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
