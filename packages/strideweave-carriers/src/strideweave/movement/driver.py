"""The few calls of CUDA's driver that copies are made of. Each takes a fraction of what the same through torch takes.

The driver library comes with the device's driver. Where it is missing, as on machines of other makers, torch copies.
Threads: any; what names a stream makes the stream's context the thread's first, which the driver, unlike the runtime,
does not see to by itself.
"""

from __future__ import annotations

import ctypes
import threading
from array import array
from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from .. import forks
from .captures import beside_captures

if TYPE_CHECKING:
    import torch

NOT_READY = 600
"""The driver's status for work that has not ended."""

NO_TIMING = 2
"""The driver's flag for events that are cheap to record."""


BATCH = 4
"""Fewer copies than this are queued one by one."""

Batch = Callable[[int, int, int, int, int], int]


class Calls:
    """The driver's functions, with their types said once.

    Those of ``quick`` keep the interpreter to themselves: they return in microseconds, after which a thread that had
    let others in would wait for its next turn, five milliseconds beside one that only runs Python. The rest may block.
    """

    def __init__(self, library: ctypes.CDLL, quick: ctypes.CDLL) -> None:
        handle = ctypes.c_void_p
        self.reason = library.cuGetErrorString
        self.copy, self.queue = library.cuMemcpyAsync, quick.cuMemcpyAsync
        # Addresses of devices are 64-bit integers to the driver; as handles they convert in a third of the time.
        self.copy.argtypes = self.queue.argtypes = handle, handle, ctypes.c_size_t, handle
        self.stream_query, self.stream_synchronize = quick.cuStreamQuery, library.cuStreamSynchronize
        self.event_create, self.event_record = library.cuEventCreate, quick.cuEventRecord
        self.event_query, self.event_synchronize = quick.cuEventQuery, library.cuEventSynchronize
        self.event_record.argtypes = handle, handle
        self.wait_event = quick.cuStreamWaitEvent
        self.wait_event.argtypes = handle, handle, ctypes.c_uint
        for call in (self.stream_query, self.stream_synchronize, self.event_query, self.event_synchronize):
            call.argtypes = (handle,)
        self.copy_batch = _batched(quick)
        self.write_word = getattr(quick, "cuStreamWriteValue32_v2", None)
        if self.write_word is not None:
            self.write_word.argtypes = handle, handle, ctypes.c_uint, ctypes.c_uint


class _Attributes(ctypes.Structure):
    """How the copies of a batch are made: each reads its source when the stream comes to it."""

    _fields_ = (
        ("order", ctypes.c_int),
        ("hints", ctypes.c_int * 4),
        ("flags", ctypes.c_uint),
    )


IN_STREAM_ORDER = 1
"""The driver's word for sources that are read when the stream comes to the copy."""


def _batched(library: ctypes.CDLL) -> Batch | None:
    """The call for several copies, of targets, sources, sizes, count and stream; None where the driver has none.

    It came with CUDA 12.8; CUDA 13 has it without the argument that names the copy at fault.
    """
    attributes, first, at_fault = _Attributes(order=IN_STREAM_ORDER), ctypes.c_size_t(0), ctypes.c_size_t(0)
    rest = (ctypes.byref(attributes), ctypes.byref(first), 1)
    # One set of attributes, from the first copy on.
    kinds = [ctypes.c_void_p] * 3 + [ctypes.c_size_t, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]
    now = getattr(library, "cuMemcpyBatchAsync_v2", None)
    if now is not None:
        now.argtypes = (*kinds, ctypes.c_void_p)
        return lambda targets, sources, sizes, count, stream: now(
            targets, sources, sizes, count, *rest, stream
        )
    before = getattr(library, "cuMemcpyBatchAsync", None)
    if before is None:
        return None
    before.argtypes = (*kinds, ctypes.c_void_p, ctypes.c_void_p)
    last = ctypes.byref(at_fault)
    return lambda targets, sources, sizes, count, stream: before(
        targets, sources, sizes, count, *rest, last, stream
    )


@cache
def _calls() -> Calls | None:
    try:
        return Calls(ctypes.CDLL("libcuda.so.1"), ctypes.PyDLL("libcuda.so.1"))
    except (OSError, AttributeError):
        return None


def is_there() -> bool:
    """Whether the other functions here may be called."""
    return _calls() is not None


_bound = threading.local()


@cache
def alone() -> bool:
    """Whether there is one device, so that every context is its."""
    import torch

    return torch.cuda.device_count() == 1


def _bind(stream: torch.cuda.Stream) -> None:
    if getattr(_bound, "generation", None) != forks.generation:
        # Any call of the runtime makes the context this thread's.
        with beside_captures():
            stream.query()
        _bound.generation = forks.generation


def _on(stream: torch.cuda.Stream, call: Callable[..., int], *args: Any) -> int:
    """``call(*args)`` with the context made the thread's in which the handle of ``stream`` means that stream.

    The handle of every device's default stream is 0: the driver takes it for the one of the current context.
    """
    if getattr(_bound, "generation", None) != forks.generation:
        _bind(stream)
    if not stream.cuda_stream and not alone():
        import torch

        if torch._C._cuda_getDevice() != stream.device_index:
            with torch.cuda.device(stream.device_index):
                return call(*args)
    return call(*args)


def bound(device: int) -> Calls | None:
    """The driver's functions, with the context of ``device``, torch's current one, made the thread's; None without one.

    For callers to whom a microsecond matters: they pass addresses and handles of streams, and hand a status that is
    not 0 to ``refuse``.
    """
    calls = _calls()
    if calls is not None and getattr(_bound, "generation", None) != forks.generation:
        import torch

        _bind(torch.cuda.current_stream(device))
    return calls


def refuse(status: int, what: str) -> NoReturn:
    """Raise RuntimeError with the driver's words for ``status``."""
    _check(status, what)
    raise AssertionError(f"{what}: status {status} is no failure")


def _check(status: int, what: str) -> None:
    if not status:
        return
    text, calls = ctypes.c_char_p(), _calls()
    if calls is None or calls.reason(status, ctypes.byref(text)) or text.value is None:
        raise RuntimeError(f"{what}: the CUDA driver reports error {status}")
    raise RuntimeError(f"{what}: the CUDA driver reports: {text.value.decode()}")


def copy(target: int, source: int, nbytes: int, stream: torch.cuda.Stream) -> None:
    """Queue a copy on ``stream`` between two addresses, each on a device or page-locked.

    Raises:
        RuntimeError: the driver refuses; nothing was queued.
    """
    raw = stream.cuda_stream
    if (raw or alone()) and getattr(_bound, "generation", None) == forks.generation:
        # As ``_on`` would, which takes as long as a small copy.
        status = _calls().queue(target, source, nbytes, raw)  # type: ignore[union-attr] # the caller has asked
    else:
        status = _on(stream, _calls().queue, target, source, nbytes, raw)  # type: ignore[union-attr] # likewise
    if status:
        _check(status, f"copy of {nbytes} bytes")


def copy_runs(
    target: int, source: int, runs: Sequence[tuple[int, int, int]], stream: torch.cuda.Stream
) -> None:
    """Queue a copy on ``stream`` for each of ``runs``: byte of the source, byte of the target, length.

    ``target`` and ``source`` are addresses as for ``copy``. No order among the runs, which the driver gets in one call
    where it takes several: copies then follow one another without the gaps between single ones.

    Raises:
        RuntimeError: the driver refuses; some of the runs may have been queued.
    """
    calls = _calls()
    if len(runs) < BATCH or calls.copy_batch is None:  # type: ignore[union-attr] # the caller has asked
        for at, to, nbytes in runs:
            copy(target + to, source + at, nbytes, stream)
        return
    count = len(runs)
    words = [target + to for _, to, _ in runs]
    words += [source + at for at, _, _ in runs]
    words += [nbytes for _, _, nbytes in runs]
    kept = array("Q", words)
    at, _ = kept.buffer_info()
    status = _on(stream, calls.copy_batch, at, at + 8 * count, at + 16 * count, count, stream.cuda_stream)  # type: ignore[union-attr] # as above
    if status:
        _check(status, f"copy of {len(runs)} runs")


def writes_words() -> bool:
    """Whether ``write_word`` may be called; drivers before CUDA 12 do without."""
    calls = _calls()
    return calls is not None and calls.write_word is not None


def write_word(address: int, stream: torch.cuda.Stream) -> None:
    """Queue on ``stream`` a write of 32 bits to page-locked ``address``, once what was queued before has ended.

    Raises:
        RuntimeError: the driver refuses; nothing was queued.
    """
    status = _on(stream, _calls().write_word, stream.cuda_stream, address, 1, 0)  # type: ignore[union-attr] # the caller has asked
    if status:
        _check(status, "write of a word")


def is_idle(stream: torch.cuda.Stream) -> bool:
    """Whether ``stream`` has done everything that was queued on it, or failed at it."""
    return _on(stream, _calls().stream_query, stream.cuda_stream) != NOT_READY  # type: ignore[union-attr] # the caller has asked


def synchronize(stream: torch.cuda.Stream) -> None:
    """Block until ``stream`` has done everything; other Python threads run meanwhile.

    Raises:
        RuntimeError: what was queued failed.
    """
    status = _on(stream, _calls().stream_synchronize, stream.cuda_stream)  # type: ignore[union-attr] # the caller has asked
    if status:
        _check(status, "work of the device")


class Event:
    """An event like torch's, as far as copies need one. Recorded anew it stands for the later work alone."""

    __slots__ = ("_handle", "_raw", "stream")

    def __init__(self, stream: torch.cuda.Stream) -> None:
        import torch

        _bind(stream)
        handle = ctypes.c_void_p()
        # The driver makes it for the current context, and records it on streams of no other.
        with torch.cuda.device(stream.device_index):
            status = _calls().event_create(ctypes.byref(handle), NO_TIMING)  # type: ignore[union-attr] # asked
        _check(status, "making an event")
        self._handle: Any = handle.value
        self.stream, self._raw = stream, stream.cuda_stream

    def record(self) -> None:
        """Stand for everything queued so far on the stream that the event was made for."""
        stream, raw = self.stream, self._raw
        if (raw or alone()) and getattr(_bound, "generation", None) == forks.generation:
            status = _calls().event_record(self._handle, raw)  # type: ignore[union-attr] # it was made
        else:
            status = _on(stream, _calls().event_record, self._handle, raw)  # type: ignore[union-attr] # likewise
        if status:
            _check(status, "recording an event")

    def record_bound(self, calls: Calls) -> None:
        """``record``, where the event's context is the thread's already, on a stream other than the default one."""
        status = calls.event_record(self._handle, self._raw)
        if status:
            _check(status, "recording an event")

    def wait(self, stream: torch.cuda.Stream) -> None:
        """Make ``stream`` do what is queued on it from now on after that work."""
        status = _on(stream, _calls().wait_event, stream.cuda_stream, self._handle, 0)  # type: ignore[union-attr] # it was made
        if status:
            _check(status, "waiting for an event")

    def query(self) -> bool:
        """Whether that work has ended; RuntimeError where it failed."""
        _bind(self.stream)
        status = _calls().event_query(self._handle)  # type: ignore[union-attr] # it was made
        if status and status != NOT_READY:
            _check(status, "work of the device")
        return not status

    def synchronize(self) -> None:
        """Block until that work has ended; RuntimeError where it failed."""
        _bind(self.stream)
        status = _calls().event_synchronize(self._handle)  # type: ignore[union-attr] # it was made
        if status:
            _check(status, "work of the device")
