"""What becomes of page-locked memory that nobody has any more: it is unlocked and given back by a thread of its own.

Copies that were queued without blocking may still be under way then, on streams that nothing here knows of: torch keeps
its own memory until they are done, and users rely on that. Nothing can be asked of the devices as a whole, since that
breaks graphs that are being captured. But the driver unlocks memory no sooner than the device under which it was locked
has done what it was given before, on whatever stream, during captures too (measured with driver 580, shown by
``tests/test_locked_cuda.py``). It does not wait for other devices.
That may take long, so it is no work for whoever happens to drop the last tensor, which the collector may do anywhere.
"""

from __future__ import annotations

import atexit
import os
import threading
import warnings
from queue import SimpleQueue
from typing import Protocol

from .. import forks
from . import page_locks
from .completion import call


class Retired(Protocol):
    """Memory that nobody has any more, in ranges that are locked one by one."""

    @property
    def addresses(self) -> list[int]:
        """Where the ranges begin that are still locked."""
        ...

    def free(self) -> None:
        """Give it back; none of it is locked."""
        ...


class Retirement:
    """A thread, started when memory is first locked, and a queue that finalisers may add to."""

    def __init__(self) -> None:
        # Safe to add to from a finaliser that runs while this very thread takes something off.
        self._gone: SimpleQueue[Retired | threading.Event | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._thread: threading.Thread | None = None
        self._stopping = False
        self._born = forks.generation

    def start(self) -> None:
        """Have a thread for what comes.

        Raises:
            RuntimeError: the system gives no more threads.
        """
        with self._guard:
            if self._thread is None and not self._stopping:
                thread = threading.Thread(target=self._work, name="strideweave-unlock", daemon=True)
                thread.start()
                self._thread = thread
                atexit.register(self.stop)

    def retire(self, memory: Retired, here=forks) -> None:
        """Unlock and free ``memory`` once the devices let it go. Neither locks nor waits; finalisers may call it.

        In a forked child nothing happens: the parent has locked it, and what lies at the address there is not known.
        """
        # Bound above: at the end of the interpreter names of modules may be gone.
        if self._born == here.generation:
            self._gone.put(memory)

    def settle(self, seconds: float) -> bool:
        """Wait until all that came before is given back, ``seconds`` at most; whether it is."""
        if self._thread is None or self._stopping:
            return False
        passed = threading.Event()
        self._gone.put(passed)
        return passed.wait(seconds)

    def _work(self) -> None:
        while (one := self._gone.get()) is not None:
            if isinstance(one, threading.Event):
                one.set()
            else:
                call(lambda memory=one: _give_back(memory))

    def stop(self) -> None:
        """End the thread once it has given back all that came before; the end of the process does the rest."""
        self._stopping = True
        self._gone.put(None)
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()


_stuck: list[Retired] = []
"""What the driver does not unlock: a device might still use it."""


def _give_back(memory: Retired) -> None:
    while memory.addresses:
        status = page_locks.unlock(memory.addresses[-1])
        if status not in page_locks.UNLOCKED:
            # So it is after a kernel has failed, which ends the use of its device.
            _stuck.append(memory)
            warnings.warn(
                "page-locked memory that nobody has any more stays with this process: the driver does not unlock it "
                f"(status {status})",
                RuntimeWarning,
                stacklevel=1,
            )
            return
        memory.addresses.pop()
    memory.free()


_current = Retirement()


def retirement() -> Retirement:
    """This process's."""
    return _current


def _after_fork() -> None:
    global _current
    _current = Retirement()


os.register_at_fork(after_in_child=_after_fork)
