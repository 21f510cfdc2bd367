"""What the part of a projection that runs later must know of the thread that asked for it."""

from __future__ import annotations

import _thread
import threading
from typing import TYPE_CHECKING, Any

from ...movement import driver
from ...movement.captures import leave_captures, pass_captures
from ...movement.cuda_lanes import Marks

if TYPE_CHECKING:
    import torch


class Prepared:
    """The requesting thread and its stream; ``event`` marks what the stream had queued when it was first asked for.

    It is asked for no later than at the end of the request's own submission. Asked earlier by another thread it may
    mark more work than needed, never less. ``thread`` is None once that submission has ended.
    """

    __slots__ = ("_event", "_idle", "_lock", "_marks", "stream", "thread")

    def __init__(self, stream: torch.cuda.Stream | None, marks: Marks | None) -> None:
        self.thread: int | None = threading.get_ident()
        self.stream, self._marks = stream, marks
        self._event: Any = None
        self._idle = False
        self._lock = _thread.allocate_lock()

    @property
    def event(self) -> Any:
        """The event, recorded once; None where nothing is left to wait for, or while a graph is being captured."""
        if self.stream is None or self._marks is None:
            return None
        with self._lock:
            if self._event is None and not self._idle:
                # Asking takes a fraction of what an event takes, and what has run need not be waited for.
                before = pass_captures()
                try:
                    self._idle = driver.is_there() and driver.is_idle(self.stream)
                finally:
                    leave_captures(before)
                if not self._idle:
                    self._event = self._marks.take()
            return self._event

    def __del__(self) -> None:
        # Appends to a list: no lock is taken and no device is called.
        if self._event is not None and self._marks is not None:
            self._marks.give(self._event)


UNORDERED = Prepared(None, None)
"""For targets that nothing else has used: the gather waits for nobody."""

UNORDERED.thread = None
