"""The worker pool for host and file copies: few daemon threads, started at the first job.

Exit: one ``atexit`` hook tells the workers to stop between chunks and joins them, because a daemon thread
inside a native copy while the interpreter goes down aborts the process. Fork: a child starts a pool of its own.
"""

from __future__ import annotations

import atexit
import heapq
import itertools
import os
import threading
from collections.abc import Callable

from .completion import Completion
from .interrupts import interrupts_deferred

DEMAND, BACKGROUND = 0, 1
"""Priorities: work that somebody waits for goes ahead of prefetch and write-back."""

CHUNK = 64 << 20
"""The most bytes copied between two looks at the stop flag."""


class PoolStopped(RuntimeError):
    """The interpreter is exiting; the job was not run or was cut short."""


class Job:
    """Work that is done once, by a worker or by a thread that waits for it, whoever comes first."""

    __slots__ = ("_left",)

    def __init__(self, work: Callable[[], None], ended: Callable[[BaseException | None], None]) -> None:
        # Taking it off is atomic. What was done is not kept alive while the job waits its turn in the queue.
        self._left = [(work, ended)]

    def run(self) -> None:
        """Do it and tell how it ended, unless somebody does."""
        if not self._left:
            return
        try:
            work, ended = self._left.pop()
        except IndexError:
            return
        failure = None
        try:
            work()
        except BaseException as error:
            failure = error
        ended(failure)

    def refuse(self, error: BaseException) -> None:
        """Tell that it ended with ``error``, unless somebody does it."""
        try:
            _, ended = self._left.pop()
        except IndexError:
            return
        ended(error)

    def help(self) -> None:
        """See ``Helper.help``."""
        with interrupts_deferred():
            self.run()

    def look(self) -> None:
        """See ``Helper.look``: a worker sees to it."""

    def hurry(self) -> None:
        """See ``Helper.hurry``: it is in the queue already."""


class Pool:
    """At most ``limit`` threads that run jobs in order of priority, then of submission."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._condition = threading.Condition(threading.Lock())
        self._jobs: list[tuple[int, int, Job]] = []
        self._count = itertools.count()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._stopping = False

    def submit(self, job: Callable[[], None], priority: int = DEMAND) -> Completion[None]:
        """Run ``job`` on a worker; the completion settles with None or with what it raised."""
        completion: Completion[None] = Completion()
        self.post(job, lambda error: _settle(completion, error), priority)
        return completion

    def post(
        self, work: Callable[[], None], ended: Callable[[BaseException | None], None], priority: int = DEMAND
    ) -> Job:
        """Run ``work`` on a worker, or on a thread that asks the job for help, and call ``ended`` there."""
        job = Job(work, ended)
        # An interrupt as a Condition is entered would leave it locked for good.
        with interrupts_deferred(), self._condition:
            if self._stopping:
                raise PoolStopped("submit: the interpreter is exiting; finish copies before the program ends")
            if self._idle <= len(self._jobs) and len(self._threads) < self._limit:
                self._start()
            heapq.heappush(self._jobs, (priority, next(self._count), job))
            self._condition.notify()
        return job

    def _start(self) -> None:
        thread = threading.Thread(target=self._work, name=f"strideweave-{len(self._threads)}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # The system gives no more threads; those there are will do.
            if not self._threads:
                raise
        else:
            self._threads.append(thread)

    def _next(self) -> Job | None:
        with self._condition:
            self._idle += 1
            while not self._jobs and not self._stopping:
                self._condition.wait()
            self._idle -= 1
            if self._stopping:
                return None
            return heapq.heappop(self._jobs)[2]

    def _work(self) -> None:
        while (job := self._next()) is not None:
            job.run()

    def stop(self) -> None:
        """Stop after the chunks in flight, fail what has not begun, join the threads."""
        with self._condition:
            self._stopping = True
            left, self._jobs = self._jobs, []
            self._condition.notify_all()
        for *_, job in left:
            job.refuse(PoolStopped("copy: not begun because the interpreter is exiting"))
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join()


def _settle(completion: Completion[None], error: BaseException | None) -> None:
    if error is None:
        completion.resolve(None)
    else:
        completion.reject(error)


exiting = False
"""Whether the interpreter is: what ``checkpoint`` asks."""
_pool: Pool | None = None
_guard = threading.Lock()


def pool() -> Pool:
    """The process's pool."""
    global _pool
    with _guard:
        if _pool is None:
            _pool = registered(Pool(max(2, min(8, os.cpu_count() or 2))))
        return _pool


def checkpoint() -> None:
    """Called by copies between chunks; raises once the interpreter is exiting."""
    if exiting:
        raise PoolStopped("copy: cut short because the interpreter is exiting")


def registered(started: Pool) -> Pool:
    """``started``, to be stopped when the interpreter exits."""
    atexit.register(_stop_at_exit, started)
    return started


def _stop_at_exit(started: Pool) -> None:
    global exiting
    exiting = True
    started.stop()


def _after_fork() -> None:
    global exiting, _pool, _guard
    exiting, _pool, _guard = False, None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)
