"""What a forked child must put right: locks that a thread of the parent held, and work that nobody does there."""

from __future__ import annotations

import os
import threading
import weakref
from typing import Protocol

generation = 0
"""How many forks lie between this process and the one that first imported this; work of another one does not run."""


class Renewed(Protocol):
    """Something with locks."""

    def renew_in_child(self) -> None:
        """Called in a forked child before anything else runs there: take fresh locks, give up unfinished work."""
        ...


_live: set[weakref.ref[Renewed]] = set()
_forget = _live.discard


def renew(thing: Renewed) -> None:
    """Have ``thing.renew_in_child()`` called in forked children for as long as it lives."""
    # Not a WeakSet: one of these is added per carrier, and a dead one is discarded without a lock.
    _live.add(weakref.ref(thing, _forget))


def left_locked(lock: threading.Lock | threading.RLock) -> bool:  # type: ignore[valid-type] # RLock is a factory before 3.13
    """In a child: whether another thread of the parent held ``lock``, so that what it guards may be half changed."""
    if not lock.acquire(blocking=False):  # type: ignore[attr-defined] # likewise
        return True
    lock.release()  # type: ignore[attr-defined] # likewise
    return False


_fresh: dict[threading.Lock, threading.Lock] = {}


def fresh_for(lock: threading.Lock) -> threading.Lock:
    """In ``renew_in_child``: the lock to use instead of ``lock``, the same for all that shared it."""
    return _fresh.setdefault(lock, threading.Lock())


def _after_fork() -> None:
    global generation
    generation += 1
    for ref in tuple(_live):
        thing = ref()
        if thing is not None:
            thing.renew_in_child()
    _fresh.clear()


os.register_at_fork(after_in_child=_after_fork)
