"""Putting Ctrl-C off while a waiting thread does what follows a copy: half of it must not be left undone."""

from __future__ import annotations

import _thread
import os
import signal
import sys
import threading
from types import FrameType
from typing import Any

_SIGINT = int(signal.SIGINT)
# What ``signal`` wraps takes a tenth of its time: it makes enumerations of handlers, which nobody here looks at.
_plain = sys.modules.get("_signal", signal)
_get_handler = getattr(_plain, "getsignal", signal.getsignal)
_set_handler = getattr(_plain, "signal", signal.signal)
_main = threading.main_thread().ident


def _after_fork() -> None:
    global _main
    _main = _thread.get_ident()


os.register_at_fork(after_in_child=_after_fork)


class interrupts_deferred:
    """Within it a SIGINT is noted; at the end the handler that was there gets it. On other threads it does nothing."""

    __slots__ = ("_before", "_noted")

    def __enter__(self) -> None:
        self._before: Any = None
        self._noted: tuple[int, FrameType | None] | None = None
        # Python runs handlers on the main thread only.
        if _thread.get_ident() != _main:
            return
        handler = _get_handler(_SIGINT)
        if callable(handler):
            try:
                _set_handler(_SIGINT, self._note)
            except ValueError:
                # An interpreter inside another one has no signals.
                return
            self._before = handler

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._noted = number, frame

    def __exit__(self, *_: object) -> None:
        before = self._before
        if before is not None:
            _set_handler(_SIGINT, before)
            if self._noted is not None:
                before(*self._noted)
