"""Watching device events: what follows a copy or a gather happens once its event has passed.

A thread that waits for the work synchronises with the event and does what follows on its own, without waiting for
another thread to wake up. One reaper thread per stream does it for everything that nobody waits for.
"""

from __future__ import annotations

import atexit
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .captures import allow_during_capture, beside_captures
from .completion import call
from .interrupts import interrupts_deferred

if TYPE_CHECKING:
    import torch

Settle = Callable[[BaseException | None], None]

CLOSE, LAZY = 5e-5, 1e-3
"""Seconds between two looks at an event: when something follows it, and when only bookkeeping does."""

LINGER = 200
"""Looks at an empty queue before the thread blocks; waking it costs the submitting thread more than a look."""

BUSY, LINGERING, ASLEEP = range(3)


class Watch:
    """An event and what is to follow it, once."""

    __slots__ = ("_reaper", "_todo", "_waiting", "event", "lazy")

    def __init__(self, reaper: Reaper, event: Any, settle: Settle, lazy: bool) -> None:
        self._reaper, self.event, self.lazy = reaper, event, lazy
        self._todo = [settle]
        self._waiting: list[None] = []

    def mark(self) -> Any:
        """The event."""
        return self.event

    def failure(self) -> BaseException | None:
        """Block until the event has passed; the device's error if there is one."""
        try:
            self.mark().synchronize()
        except RuntimeError as error:
            return error
        return None

    def help(self) -> None:
        """Block until the event has passed, then do what follows unless the reaper has begun to."""
        # Appending and popping are atomic, unlike counting: several threads may wait.
        self._waiting.append(None)
        try:
            with beside_captures():
                error = self.failure()
        finally:
            self._waiting.pop()
        self.settle(error)

    def look(self) -> None:
        """Do what follows if the event has passed."""
        if not self._todo:
            return
        with beside_captures():
            if not self.passed():
                return
            error = self.failure()
        self.settle(error)

    def hurry(self) -> None:
        """Something waits for what follows, though no thread does."""
        if self.lazy:
            self.lazy = False
            self._reaper.hurry()

    def settle(self, error: BaseException | None) -> None:
        """Do what follows, if nobody has begun to."""
        with interrupts_deferred():
            try:
                # Of two threads one finds it gone.
                follow = self._todo.pop()
            except IndexError:
                return
            try:
                follow(error)
            finally:
                self.give_back()

    def give_back(self) -> None:
        """What follows has been done: nothing is needed any more."""

    def is_open(self) -> bool:
        """Whether what follows is still to be done."""
        return bool(self._todo)

    def is_attended(self) -> bool:
        """Whether a thread waits that will do what follows."""
        return bool(self._waiting)

    def passed(self) -> bool:
        """Whether the event has passed, or will not any more."""
        try:
            return self.mark().query()
        except RuntimeError:
            return True


class Reaper:
    """Settles watches of one stream, oldest first."""

    def __init__(self, name: str) -> None:
        self._watches: deque[Watch] = deque()
        self._bell = threading.Lock()
        self._bell.acquire()
        self._state, self._stopping = BUSY, False
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def watch(self, event: torch.cuda.Event, settle: Settle, lazy: bool = False) -> Watch:
        """Have ``settle`` called once ``event`` has passed, with the device's error if there is one.

        ``lazy`` says that nobody minds a millisecond, so that the submitting thread need not wake the reaper.
        """
        watch = Watch(self, event, settle, lazy)
        self.add(watch)
        return watch

    def add(self, watch: Watch) -> None:
        """Have ``watch`` settled once its event has passed."""
        self._watches.append(watch)
        if self._state == ASLEEP or (self._state == LINGERING and not watch.lazy):
            self._ring()

    def hurry(self) -> None:
        """A watch is lazy no more."""
        if self._state != BUSY:
            self._ring()

    def _ring(self) -> None:
        try:
            self._bell.release()
        except RuntimeError:
            # Somebody else has rung, and the reaper is on its way.
            return

    def _work(self) -> None:
        allow_during_capture()
        while self._watches or not self._stopping:
            if not self._watches:
                self._rest()
                if self._watches and self._watches[0].lazy and not self._stopping:
                    # Whoever waits for it had better not find this thread in the way.
                    time.sleep(LAZY)
            elif self._look(self._watches[0]):
                self._watches.popleft()

    def _look(self, watch: Watch) -> bool:
        """Settle ``watch`` if that is possible; whether nothing is left to do about it."""
        if watch.is_open() and (watch.is_attended() or not watch.passed()):
            time.sleep(LAZY if watch.lazy else CLOSE)
            return False
        if watch.is_open():
            call(lambda: watch.settle(watch.failure()))
        return True

    def _rest(self) -> None:
        """Return once there may be something to do."""
        self._state = LINGERING
        for _ in range(LINGER):
            if self._bell.acquire(timeout=LAZY) or self._watches or self._stopping:
                self._state = BUSY
                return
        self._state = ASLEEP
        # A watch that came just before the line above has not rung.
        if not (self._watches or self._stopping):
            self._bell.acquire()
        self._state = BUSY

    def stop(self) -> None:
        """Settle what was queued, then end the thread."""
        self._stopping = True
        self._ring()
        if threading.current_thread() is not self._thread:
            self._thread.join()
