"""The few calls of CUDA's driver that copies are made of. Each takes a fraction of what the same through torch takes.

The driver library comes with the device's driver. Where it is missing, as on machines of other makers, torch copies.
"""

from __future__ import annotations

import ctypes
import os
import threading
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


@cache
def library() -> ctypes.CDLL | None:
    """The driver library, or None."""
    try:
        found = ctypes.CDLL("libcuda.so.1")
        copy = found.cuMemcpyAsync
    except (OSError, AttributeError):
        return None
    copy.argtypes = ctypes.c_uint64, ctypes.c_uint64, ctypes.c_size_t, ctypes.c_void_p
    copy.restype = ctypes.c_int
    return found


@cache
def _memcpy() -> Any:
    found = library()
    return None if found is None else found.cuMemcpyAsync


_bound = threading.local()


def copies() -> bool:
    """Whether ``copy`` may be called."""
    return _memcpy() is not None


def bind(stream: torch.cuda.Stream) -> None:
    """Make the device's context this thread's: the driver, unlike the runtime, does not see to that by itself."""
    if getattr(_bound, "process", None) != os.getpid():
        # Any call of the runtime does.
        stream.query()
        _bound.process = os.getpid()


def copy(target: int, source: int, nbytes: int, stream: int) -> None:
    """Queue a copy between two addresses, each on a device or page-locked, on the stream with this handle.

    Raises:
        RuntimeError: the driver refuses; nothing was queued.
    """
    status = _memcpy()(target, source, nbytes, stream)
    if status:
        raise RuntimeError(f"copy of {nbytes} bytes: the CUDA driver refuses: {_reason(status)}")


def _reason(status: int) -> str:
    text = ctypes.c_char_p()
    found = library()
    if found is None or found.cuGetErrorString(status, ctypes.byref(text)) or text.value is None:
        return f"error {status}"
    return text.value.decode()
