"""The handles on tiled work."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

from ...movement.completion import AwaitResult, Completion
from ...tensor import Tensor

if TYPE_CHECKING:
    from .core import Core
    from .projection import Queue
    from .request import Request
    from .resident import Gathering

T = TypeVar("T")


def _timed(completion: Completion[T], core: Core) -> T:
    if completion.done:
        return completion.result()
    begun = time.perf_counter()
    try:
        return completion.result()
    finally:
        core.stats.add(stalls=1, stall_seconds=time.perf_counter() - begun)


class AwaitProjection(AwaitResult[Tensor]):
    """A handle on a projection. It is no Tensor: operations refuse it.

    ``wait()`` blocks until every byte is in place and returns the compact Tensor, the same each time.
    """

    __slots__ = ("_core", "_publish", "_queue", "_told")

    def __init__(
        self,
        request: Request | Gathering,
        queue: Queue | Gathering,
        publish: Callable[[], Tensor],
        after: Callable[[], None] | None = None,
    ) -> None:
        self._completion, self._after = request.completion, after
        self._queue, self._publish, self._core = queue, publish, request.core
        self._told = False

    def wait(self) -> Tensor:
        """The compact Tensor, complete. Raises the projection's failure, the same object each time."""
        try:
            value = _timed(self._completion, self._core)
        except BaseException as error:
            self._told = error is self._completion.error
            if self._told:
                self._core.late[:] = [e for e in self._core.late if e is not error]
            raise
        if self._after is not None:
            self._after()
        return value

    def on_stream(self, stream: Any = None) -> Tensor:
        """The compact Tensor once every copy is submitted, ordered on ``stream`` (default: the current one).

        Work that is queued on that stream afterwards sees the values; the host does not wait for the device.
        A failure of the device later on is raised by ``wait()`` or, if nobody waits, by the tiled carrier's
        ``release()``. On carriers without streams this is ``wait()``.

        Raises:
            TypeError: ``stream`` is no torch stream.
        """
        if stream is not None and not hasattr(stream, "wait_event"):
            raise TypeError(
                f"on_stream: expected a torch.cuda.Stream or None, got {type(stream).__name__} {stream!r}"
            )
        if not self._queue.is_closed():
            # What is queued last is queued when something has arrived: nobody is nearer than this thread.
            self._completion.help_until(self._queue.is_closed)
        events = self._queue.wait()
        if not events or (self._completion.done and self._completion.error is not None):
            return self.wait()
        tensor = self._publish()
        self._core.mover.order(stream, events, tensor.carrier)
        self._completion.add_callback(self._ended_late)
        return tensor

    def _ended_late(self) -> None:
        error, late = self._completion.error, self._core.late
        if error is not None and not self._told and not any(e is error for e in late):
            late.append(error)


class AwaitResidency(AwaitResult[None]):
    """A handle on a promotion or eviction; ``wait()`` returns None."""

    __slots__ = ("_core",)

    def __init__(self, completion: Completion[None], core: Core) -> None:
        super().__init__(completion)
        self._core = core

    def wait(self) -> None:
        """Block until the set has moved as a whole; raises the failure that left it as it was."""
        return _timed(self._completion, self._core)
