"""What device copies run on: a stream, a reaper thread and page-locked buffers per device and direction."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from .. import seam
from .completion import Completion
from .reaper import Reaper

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

        event = torch.cuda.Event()
        event.record(self.stream)

        def settle(error: BaseException | None, keep: object = keep) -> None:
            if error is None:
                completion.resolve(None)
            else:
                completion.reject(error)

        completion.assist(self.reaper.watch(event, settle))


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
