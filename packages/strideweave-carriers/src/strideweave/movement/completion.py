"""One-shot completions and the handles that users hold on them."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from .. import forks
from ..errors import ForkedProcessError
from .interrupts import interrupts_deferred

T = TypeVar("T")


class Helper(Protocol):
    """A part of some work that a waiting thread can see through by itself."""

    def help(self) -> None:
        """Block until the part has ended and settle it, unless somebody else does."""
        ...

    def look(self) -> None:
        """Settle the part if it has ended; never blocks."""
        ...

    def hurry(self) -> None:
        """Something follows the part: see to it soon even if nobody waits."""
        ...


class Completion(Generic[T]):
    """A result that arrives once, from any thread. It refers to nobody's carrier and may outlive all handles.

    Callbacks run on the thread that settles, in the order they were added, after the result is visible. A thread
    that waits first does what ``assist`` was told of, so that it need not be woken by another.
    """

    __slots__ = (
        "_born",
        "_callbacks",
        "_error",
        "_guard",
        "_helpers",
        "_settled",
        "_trace",
        "_value",
        "urgent",
    )

    def __init__(self) -> None:
        self._guard = _thread.allocate_lock()
        self._callbacks: list[Callable[[], None]] = []
        self._helpers: list[Helper] = []
        self._settled = False
        self._error: BaseException | None = None
        self._born = forks.generation
        self.urgent = False

    @property
    def done(self) -> bool:
        """Whether a result or a failure is there."""
        return self._settled

    @property
    def error(self) -> BaseException | None:
        """The failure, once settled; None before and after success."""
        return self._error

    def resolve(self, value: T) -> None:
        """Settle with a result."""
        self._settle(value, None)

    def reject(self, error: BaseException) -> None:
        """Settle with a failure."""
        self._settle(None, error)

    def _settle(self, value: T | None, error: BaseException | None) -> None:
        with self._guard:
            if self._settled:
                raise RuntimeError("Completion: settled twice; this is a fault of the provider")
            # Neither is there before: one of these is made with every request, and nobody looks until it is settled.
            self._value: T | None = value
            self._trace = error.__traceback__ if error is not None else None
            self._error = error
            self._settled = True
            callbacks, self._callbacks = self._callbacks, []
            self._helpers = []
        for callback in callbacks:
            call(callback)

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once settled; at once if it is already."""
        with self._guard:
            if not self._settled:
                self._callbacks.append(callback)
                return
        # It reports what it raises, so that an interrupt would be lost in it, and half of what it does.
        with interrupts_deferred():
            call(callback)

    def assist(self, helper: Helper) -> None:
        """Let a thread that waits for this call ``helper.help()``, which sees some part of the work through."""
        self._helpers.append(helper)

    def help(self) -> None:
        """Do on this thread what can be done about this; not necessarily all of it."""
        while not self._settled:
            try:
                helper = self._helpers.pop(0)
            except IndexError:
                return
            helper.help()

    def help_until(self, enough: Callable[[], bool]) -> None:
        """``help``, part by part, for as long as it is not ``enough``."""
        while not (self._settled or enough()):
            try:
                helper = self._helpers.pop(0)
            except IndexError:
                return
            helper.help()

    def look(self) -> None:
        """Settle what has ended in the meantime; never blocks."""
        if self._born == forks.generation:
            for helper in tuple(self._helpers):
                helper.look()

    def hurry(self) -> None:
        """Something follows: whoever sees to this should not put it off."""
        self.urgent = True
        for helper in tuple(self._helpers):
            helper.hurry()

    def result(self) -> T:
        """Block until settled; the result, or the failure raised as the same object with the same traceback."""
        if not self._settled:
            self.wait()
        if self._error is not None:
            # Without with_traceback each raise would append this frame to the shared exception.
            raise self._error.with_traceback(self._trace)
        return self._value  # type: ignore[return-value] # settled without error means there is a value

    def wait(self) -> None:
        """Block until settled, well or not."""
        # No lock where it is settled: in a forked child another thread may have held it.
        if not self._settled:
            self._refuse_in_child()
            self.help()
            if not self._settled:
                self._block()

    def _block(self) -> None:
        waiter = _thread.allocate_lock()
        waiter.acquire()
        with self._guard:
            if self._settled:
                return
            # Whoever waits goes on before other things follow.
            self._callbacks.insert(0, waiter.release)
        # Released by the thread that settles. An interrupt leaves a lock behind that nobody waits for.
        waiter.acquire()

    def _refuse_in_child(self) -> None:
        if self._born != forks.generation:
            raise ForkedProcessError(
                "wait: the request was started in a parent process and does not run in its forked child; "
                "start it again here, or start workers with spawn"
            )


def call(callback: Callable[[], None]) -> None:
    """Run ``callback``; what it raises is reported, and ends neither the thread that settles nor other callbacks."""
    try:
        callback()
    except BaseException as error:
        # As of a thread that ended; the interpreter's hook for unraisable errors takes objects of its own only.
        threading.excepthook(
            threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread()))
        )


class AwaitResult(Generic[T]):
    """A handle on work that has begun. It is no Tensor, cannot be cancelled, and may be dropped freely.

    ``done`` never blocks. ``wait()`` may be called from any thread, any number of times: it returns the same
    object, or raises the same exception, each time.
    """

    __slots__ = ("__weakref__", "_after", "_completion")

    def __init__(self, completion: Completion[T], after: Callable[[], None] | None = None) -> None:
        self._completion = completion
        self._after = after

    @property
    def done(self) -> bool:
        """Whether the work has ended, well or not."""
        if not self._completion.done:
            self._completion.look()
        return self._completion.done

    def wait(self) -> T:
        """Block until the work has ended; its result. On CUDA the caller's current stream is ordered after it."""
        value = self._completion.result()
        if self._after is not None:
            self._after()
        return value

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            # Only where there is none: what is asked for is mostly the Tensor's.
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name!r}: it is a handle; call wait() and use its result"
            )

    def __repr__(self) -> str:
        state = "pending" if not self.done else "failed" if self._completion.error else "done"
        return f"<{type(self).__name__} {state}>"


class AwaitMove(AwaitResult[T]):
    """A handle on a move or a scatter; ``wait()`` gives the Tensor."""

    __slots__ = ()


def settled(value: T) -> Completion[T]:
    """A completion that already holds ``value``."""
    completion: Completion[T] = Completion()
    completion.resolve(value)
    return completion


def when_all(parts: list[Completion[None]], finish: Callable[[BaseException | None], None]) -> None:
    """Call ``finish`` once every part has settled, with the first failure in the parts' order or None."""
    if not parts:
        finish(None)
        return
    if len(parts) == 1:
        (only,) = parts
        only.add_callback(lambda: finish(only.error))
        return
    lock, left = threading.Lock(), [len(parts)]

    def one_settled() -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            finish(next((p.error for p in parts if p.error is not None), None))

    for part in parts:
        part.add_callback(one_settled)
