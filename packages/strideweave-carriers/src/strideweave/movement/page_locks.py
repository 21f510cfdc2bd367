"""Asking the driver to page-lock host memory, and to let go of it.

The driver is asked rather than the runtime: a refusal by the runtime would come up again as the error of whatever is
launched next. Threads: any. The calls let other Python threads run, and graphs that are being captured stay whole: in
any mode but the relaxed one the driver would refuse, and break those captures.
"""

from __future__ import annotations

import ctypes
from functools import cache

from .captures import beside_captures

PORTABLE = 1
"""The driver's flag for memory that is page-locked for every context."""

NO_DRIVER = -1
"""What the functions here give where there is no driver; its own statuses are 0 or more."""

UNLOCKED = frozenset((0, 4, 713))
"""Statuses of ``unlock`` after which the memory is not page-locked: by that call, because the driver has ended, because
somebody else did it."""


@cache
def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def is_there() -> bool:
    """Whether there is a driver to ask."""
    return _driver() is not None


def enter_context(device: int) -> int:
    """Make the context that torch uses on ``device`` this thread's, unless it has one; the driver's status.

    By the driver's own calls, since any of the runtime's might break a capture that this thread is at.
    """
    driver = _driver()
    if driver is None:
        return NO_DRIVER
    context = ctypes.c_void_p()
    status = driver.cuCtxGetCurrent(ctypes.byref(context))
    if status or context.value:
        return status
    return driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) or driver.cuCtxSetCurrent(context)


def lock(address: int, nbytes: int) -> int:
    """Page-lock whole pages for every context; the driver's status, 0 where it did. The thread has a context."""
    driver = _driver()
    if driver is None:
        return NO_DRIVER
    with beside_captures():
        return driver.cuMemHostRegister_v2(ctypes.c_void_p(address), ctypes.c_size_t(nbytes), PORTABLE)


def unlock(address: int) -> int:
    """Undo ``lock`` of the range that begins at ``address``; the driver's status.

    The driver waits until the device under whose context it was locked has done what it had been given; not for others.
    No context is needed.
    """
    driver = _driver()
    if driver is None:
        return NO_DRIVER
    with beside_captures():
        return driver.cuMemHostUnregister(ctypes.c_void_p(address))
