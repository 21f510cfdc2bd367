"""Putting Ctrl-C off while a waiting thread does what follows a copy: half of it must not be left undone."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class interrupts_deferred:
    """Within it a SIGINT is noted; at the end the handler that was there gets it. On other threads it does nothing."""

    __slots__ = ("_before", "_noted")

    def __enter__(self) -> None:
        self._before: Any = None
        self._noted: tuple[int, FrameType | None] | None = None
        # Python runs handlers on the main thread only.
        if threading.get_ident() != threading.main_thread().ident:
            return
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            try:
                signal.signal(signal.SIGINT, self._note)
            except ValueError:
                # An interpreter inside another one has no signals.
                return
            self._before = handler

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number, frame

    def __exit__(self, *_: object) -> None:
        before = self._before
        if before is not None:
            signal.signal(signal.SIGINT, before)
            if self._noted is not None:
                before(*self._noted)
