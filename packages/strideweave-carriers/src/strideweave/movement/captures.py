"""Keeping device calls of this package out of the way of graph captures on other threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache

RELAXED = 2
"""The driver's capture mode in which a thread's calls cannot break another thread's capture."""


def _no_driver(reference: object) -> int:
    """What ``_exchange`` gives where there is no driver library, and so no capture to disturb."""
    return 0


@cache
def _exchange() -> Callable[[object], int]:
    try:
        # Keeping the interpreter lock: it returns at once, and taking the lock again may mean waiting for it.
        return ctypes.PyDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
    except (OSError, AttributeError):
        return _no_driver


class _Cell(threading.local):
    """A thread's own place for the mode that goes to the driver and the one that comes back."""

    def __init__(self) -> None:
        value = ctypes.c_int()
        # One attribute: looking one up costs a tenth of the call.
        self.parts = value, ctypes.byref(value), _exchange()


_cell = _Cell()


def _exchange_capture_mode(mode: int) -> int:
    """Set this thread's capture mode; the one before."""
    value, reference, exchange = _cell.parts
    value.value = mode
    exchange(reference)
    return value.value


def allow_during_capture() -> None:
    """Let this thread make event calls while another thread captures a graph in global mode, from now on."""
    _exchange_capture_mode(RELAXED)


def pass_captures() -> int:
    """``allow_during_capture`` until ``leave_captures`` is called with the result."""
    value, reference, exchange = _cell.parts
    value.value = RELAXED
    exchange(reference)
    return value.value


def leave_captures(before: int) -> None:
    """Undo ``pass_captures``."""
    # Not through the function above: whoever waited for a small copy waits for this too.
    value, reference, exchange = _cell.parts
    value.value = before
    exchange(reference)


class beside_captures:
    """``allow_during_capture`` for the duration of a block."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _exchange_capture_mode(RELAXED)

    def __exit__(self, *_: object) -> None:
        _exchange_capture_mode(self._before)
