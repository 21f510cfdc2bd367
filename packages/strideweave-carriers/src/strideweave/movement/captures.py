"""Keeping device calls of this package out of the way of graph captures on other threads."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from functools import cache

RELAXED = 2
"""The driver's capture mode in which a thread's calls cannot break another thread's capture."""


@cache
def _exchange() -> Callable[[object], int] | None:
    try:
        return ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
    except (OSError, AttributeError):
        # Without the driver library there is no capture to disturb.
        return None


class _Cell(threading.local):
    """A thread's own place for the mode that goes to the driver and the one that comes back."""

    def __init__(self) -> None:
        self.value = ctypes.c_int()
        self.reference = ctypes.byref(self.value)


_cell = _Cell()


def _exchange_capture_mode(mode: int) -> int:
    """Set this thread's capture mode; the one before."""
    exchange = _exchange()
    if exchange is None:
        return mode
    cell = _cell
    value = cell.value
    value.value = mode
    exchange(cell.reference)
    return value.value


def allow_during_capture() -> None:
    """Let this thread make event calls while another thread captures a graph in global mode, from now on."""
    _exchange_capture_mode(RELAXED)


def pass_captures() -> int:
    """``allow_during_capture`` until ``leave_captures`` is called with the result."""
    return _exchange_capture_mode(RELAXED)


def leave_captures(before: int) -> None:
    """Undo ``pass_captures``."""
    _exchange_capture_mode(before)


class beside_captures:
    """``allow_during_capture`` for the duration of a block."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _exchange_capture_mode(RELAXED)

    def __exit__(self, *_: object) -> None:
        _exchange_capture_mode(self._before)
