"""What device copies run on: a stream, a reaper thread and page-locked buffers per device and direction."""

from __future__ import annotations

import atexit
import ctypes
import os
import queue
import threading
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

from .. import seam
from .completion import Completion

if TYPE_CHECKING:
    import torch

SLOT = 16 << 20
SLOTS = 4


class NothingLeft:
    """On a failure within, waits for what was queued before it: its memory may be given back afterwards."""

    __slots__ = ("_stream",)

    def __init__(self, stream: torch.cuda.Stream) -> None:
        self._stream = stream

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is not None:
            self._stream.synchronize()


class Reaper:
    """Settles completions in the order in which their events were recorded on one stream."""

    def __init__(self, name: str) -> None:
        self._queue: queue.SimpleQueue[tuple[torch.cuda.Event, Callable[[BaseException | None], None]] | None]
        self._queue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()
        atexit.register(self.stop)

    def watch(self, event: torch.cuda.Event, settle: Callable[[BaseException | None], None]) -> None:
        """Call ``settle`` once ``event`` has passed, with the device's error if there is one."""
        self._queue.put((event, settle))

    def _work(self) -> None:
        allow_during_capture()
        while (item := self._queue.get()) is not None:
            event, settle = item
            try:
                event.synchronize()
            except BaseException as error:
                settle(error)
            else:
                settle(None)
            # What the callback holds must not outlive it while the queue is empty.
            del item, event, settle

    def stop(self) -> None:
        """Settle what was queued, then end the thread."""
        self._queue.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()


RELAXED = 2
"""The driver's capture mode in which a thread's calls cannot break another thread's capture."""


@cache
def _exchange() -> Callable[[object], int] | None:
    try:
        return ctypes.CDLL("libcuda.so.1").cuThreadExchangeStreamCaptureMode
    except (OSError, AttributeError):
        # Without the driver library there is no capture to disturb.
        return None


def _exchange_capture_mode(mode: int) -> int:
    """Set this thread's capture mode; the one before."""
    value, exchange = ctypes.c_int(mode), _exchange()
    if exchange is not None:
        exchange(ctypes.byref(value))
    return value.value


def allow_during_capture() -> None:
    """Let this thread make event calls while another thread captures a graph in global mode, from now on."""
    _exchange_capture_mode(RELAXED)


class beside_captures:
    """``allow_during_capture`` for the duration of a block."""

    __slots__ = ("_before",)

    def __enter__(self) -> None:
        self._before = _exchange_capture_mode(RELAXED)

    def __exit__(self, *_: object) -> None:
        _exchange_capture_mode(self._before)


class Lane:
    """One device and direction: its stream, its reaper and its ring of page-locked buffers."""

    def __init__(self, device: int, direction: str) -> None:
        import torch

        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.reaper = Reaper(f"strideweave-{direction}-{device}")
        self._ring: list[tuple[torch.Tensor, torch.cuda.Event]] = []
        self.lock = threading.Lock()

    def ring(self) -> list[tuple[torch.Tensor, torch.cuda.Event]]:
        """The buffers, each with the event of its last copy; the caller holds ``lock``."""
        import torch

        while len(self._ring) < SLOTS:
            seam.enter("allocate")
            buffer = torch.empty(SLOT, dtype=torch.uint8, device="cpu").pin_memory()
            self._ring.append((buffer, torch.cuda.Event(blocking=True)))
        return self._ring

    def finish(self, completion: Completion[None], keep: object) -> None:
        """Settle ``completion`` after everything queued on the stream so far; ``keep`` lives until then."""
        import torch

        event = torch.cuda.Event(blocking=True)
        event.record(self.stream)

        def settle(error: BaseException | None, keep: object = keep) -> None:
            if error is None:
                completion.resolve(None)
            else:
                completion.reject(error)

        self.reaper.watch(event, settle)


_lanes: dict[tuple[int, str], Lane] = {}
_guard = threading.Lock()


def lane(device: int, direction: str) -> Lane:
    """The lane of a device in a direction (``h2d``, ``d2h``, ``d2d``), made at first use."""
    with _guard:
        key = (device, direction)
        if key not in _lanes:
            _lanes[key] = Lane(device, direction)
        return _lanes[key]


_inherited: list[dict[tuple[int, str], Lane]] = []


def _after_fork() -> None:
    global _guard, _lanes
    _guard = threading.Lock()
    # Destroying the parent's streams and events here would call a device that the child cannot use.
    _inherited.append(_lanes)
    _lanes = {}


os.register_at_fork(after_in_child=_after_fork)
