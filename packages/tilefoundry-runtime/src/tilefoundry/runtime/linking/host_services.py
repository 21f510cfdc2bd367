"""What a CPU library asks of its process: a BLAS, and as many threads as torch uses.

A library names neither; it exports C functions that take them (see the C++ runtime's ``cpu/abi.h``).
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["serve_host"]

_SET_BLAS = "tilefoundry_set_blas"
_SET_THREADS = "tilefoundry_set_num_threads"
_SET_SOURCE = "tilefoundry_set_thread_source"
_TORCH_THREADS = "_ZN2at15get_num_threadsEv"  # int at::get_num_threads()

_lock = threading.Lock()
_forked: list[int] = []
_served: list[ctypes.CDLL] = []


def _work_alone() -> None:
    """In a forked child: OpenMP's threads did not survive, and whoever waits for them waits forever."""
    global _lock
    _lock = threading.Lock()
    _forked.append(os.getpid())
    for library in _served:
        _use_one_thread(library)


os.register_at_fork(after_in_child=_work_alone)


class _BlasTable(ctypes.Structure):
    _fields_ = (("size", ctypes.c_ulong), ("sgemm", ctypes.c_void_p), ("dgemm", ctypes.c_void_p))


def serve_host(path: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` of the open library at ``path``, with its thread count following torch's.

    A library that asks for nothing gives ``function`` itself, and so does one that asks torch on its own, as
    each parallel region begins and for the calling thread. One that only takes a number is told before each
    call; threads that use different counts of torch must not call such a library at once. A forked child
    runs on one thread; ``spawn`` gives a process that uses all.
    """
    library = ctypes.CDLL(path)
    if hasattr(library, _SET_BLAS):
        library.tilefoundry_set_blas(ctypes.byref(_blas_table()))
    if not hasattr(library, _SET_THREADS):
        return function
    source = _torch_threads() if hasattr(library, _SET_SOURCE) else None
    if source is None:
        return _told_before_each_call(library, function)
    library.tilefoundry_set_thread_source(source)
    _served.append(library)
    if _forked:
        _use_one_thread(library)
    return function


def _use_one_thread(library: ctypes.CDLL) -> None:
    library.tilefoundry_set_num_threads(1)
    library.tilefoundry_set_thread_source(None)


def _told_before_each_call(library: ctypes.CDLL, function: Callable[..., Any]) -> Callable[..., Any]:
    import torch

    get_threads = torch.get_num_threads
    current = 0

    def call(*args: Any) -> Any:
        nonlocal current
        threads = 1 if _forked else get_threads()
        if threads != current:
            with _lock:
                library.tilefoundry_set_num_threads(threads)
                current = threads
        return function(*args)

    return call


@cache
def _torch_threads() -> Any | None:
    """torch's own function that gives the calling thread's count; None where this torch hides it."""
    import torch

    path = os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.so")
    try:
        return getattr(ctypes.CDLL(path), _TORCH_THREADS)
    except (OSError, AttributeError):
        return None


@cache
def _blas() -> ctypes.CDLL:
    blas = ctypes.CDLL(_blas_library())
    # Libraries share a product out over their own threads and call the BLAS from each of them: a BLAS with
    # threads of its own would put these calls one behind the other.
    blas.scipy_openblas_set_num_threads(1)
    return blas


def _blas_library() -> str:
    """The wheel's library. Importing the wheel would tell too, in a third of the time that loading takes in all."""
    spec = find_spec("scipy_openblas32")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError(
            "a CPU library asks for a BLAS, and scipy_openblas32 is not installed; pip install scipy-openblas32"
        )
    folder = os.path.join(spec.submodule_search_locations[0], "lib")
    found = sorted(name for name in os.listdir(folder) if name.startswith("libscipy_openblas"))
    if not found:
        raise ImportError(f"{folder} holds no libscipy_openblas; reinstall scipy-openblas32")
    return os.path.join(folder, found[0])


@cache
def _blas_table() -> _BlasTable:
    def address(name: str) -> int:
        return ctypes.cast(getattr(_blas(), name), ctypes.c_void_p).value or 0

    return _BlasTable(ctypes.sizeof(_BlasTable), address("scipy_cblas_sgemm"), address("scipy_cblas_dgemm"))
