"""One-shot completions and the handles that users hold on them."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Generic, TypeVar

from ..errors import ForkedProcessError

T = TypeVar("T")


class Completion(Generic[T]):
    """A result that arrives once, from any thread. It refers to nobody's carrier and may outlive all handles.

    Callbacks run on the thread that settles, in the order they were added, after the result is visible.
    """

    __slots__ = ("_callbacks", "_condition", "_error", "_pid", "_settled", "_trace", "_value")

    def __init__(self) -> None:
        self._condition = threading.Condition(threading.Lock())
        self._callbacks: list[Callable[[], None]] = []
        self._settled = False
        self._value: T | None = None
        self._error: BaseException | None = None
        self._trace = None
        self._pid = os.getpid()

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
        with self._condition:
            if self._settled:
                raise RuntimeError("Completion: settled twice; this is a fault of the provider")
            self._value, self._error = value, error
            self._trace = error.__traceback__ if error is not None else None
            self._settled = True
            callbacks, self._callbacks = self._callbacks, []
            self._condition.notify_all()
        for callback in callbacks:
            _call(callback)

    def add_callback(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` once settled; at once if it is already."""
        with self._condition:
            if not self._settled:
                self._callbacks.append(callback)
                return
        _call(callback)

    def result(self) -> T:
        """Block until settled; the result, or the failure raised as the same object with the same traceback."""
        self._refuse_in_child()
        with self._condition:
            while not self._settled:
                self._condition.wait()
        if self._error is not None:
            # Without with_traceback each raise would append this frame to the shared exception.
            raise self._error.with_traceback(self._trace)
        return self._value  # type: ignore[return-value] # settled without error means there is a value

    def _refuse_in_child(self) -> None:
        if not self._settled and self._pid != os.getpid():
            raise ForkedProcessError(
                f"wait: the request was started in process {self._pid} and does not run in its forked child; "
                "start it again here, or start workers with spawn"
            )


def _call(callback: Callable[[], None]) -> None:
    # A callback's own failure must end neither the worker that settles nor the callbacks after it.
    try:
        callback()
    except BaseException as error:
        hook = SimpleNamespace(
            exc_type=type(error),
            exc_value=error,
            exc_traceback=error.__traceback__,
            err_msg="ignored in a completion callback",
            object=callback,
        )
        sys.unraisablehook(hook)  # type: ignore[arg-type] # the documented fields are all there


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
        return self._completion.done

    def wait(self) -> T:
        """Block until the work has ended; its result. On CUDA the caller's current stream is ordered after it."""
        value = self._completion.result()
        if self._after is not None:
            self._after()
        return value

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
    lock, left = threading.Lock(), [len(parts)]

    def one_settled() -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            finish(next((p.error for p in parts if p.error is not None), None))

    for part in parts:
        part.add_callback(one_settled)
