"""Host memory copies by several threads, where there are cores to spare.

One core moves some 10 GB/s; a link to a device takes five times that. The helpers run nothing else and wait
for nothing, so a pool worker may wait for them. torch's own threads would do too, but stall for milliseconds
when the cores are busy.
"""

from __future__ import annotations

import os
import threading
from functools import cache

from ..carriers import hostmemory
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
    """Copy bytes between addresses; returns when all are in place."""
    helpers = helper_count()
    if nbytes <= ALONE or helpers == 0:
        hostmemory.copy(target, source, nbytes)
        return
    part = -(-nbytes // (helpers + 1) // PAGE) * PAGE
    spans = [(start, min(part, nbytes - start)) for start in range(part, nbytes, part)]
    waiting = [_pool().submit(lambda s=s, n=n: hostmemory.copy(target + s, source + s, n)) for s, n in spans]
    hostmemory.copy(target, source, part)
    for one in waiting:
        one.result()


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
