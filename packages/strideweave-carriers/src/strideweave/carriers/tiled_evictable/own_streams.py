"""Streams that callers' gathers run on, each met with the first request on it, and what goes with them."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from ...movement import driver
from ...movement.cuda_lanes import Marks, current_stream
from ...movement.reaper import Reaper
from .indices import Sender, index_tensor, sender_for

if TYPE_CHECKING:
    import torch

_streams: dict[tuple[int, int], Own] = {}
_guard = threading.Lock()
_inherited: list[object] = []


class Own:
    """A stream that callers' gathers run on, and what goes with it: its reaper, its events, its words for indices."""

    __slots__ = ("device", "marks", "reaper", "sender", "stream")

    def __init__(self, device: int, raw: int, stream: torch.cuda.Stream) -> None:
        self.device, self.stream, self.marks = device, stream, Marks(stream)
        self.reaper = Reaper(f"strideweave-gather-{device}-{raw:x}")
        self.sender: Sender | None = None
        """Made with the first index."""

    def index(self, places: tuple[int, ...], device: torch.device) -> torch.Tensor | None:
        """``places`` as an index tensor for what the calling thread, whose stream this is, queues from now on."""
        if self.sender is None:
            if not driver.is_there():
                return index_tensor(places, device)
            self.sender = sender_for(device)
        if len(places) > self.sender.size:
            return index_tensor(places, device)
        return self.sender.send(places)


def _met(key: tuple[int, int], stream: torch.cuda.Stream) -> Own:
    """The stream with its reaper: events of one stream pass in order; several would hold one another up."""
    with _guard:
        found = _streams.get(key)
        if found is None:
            found = _streams[key] = Own(*key, stream)
        return found


def own_stream(device: int) -> Own:
    """The calling thread's stream."""
    import torch

    key = device, torch._C._cuda_getCurrentRawStream(device)
    return _streams.get(key) or _met(key, current_stream(device))


def _after_fork() -> None:
    global _streams, _guard
    _guard = threading.Lock()
    # The parent's events are not destroyed here: the child cannot use the device.
    _inherited.append(_streams)
    _streams = {}


os.register_at_fork(after_in_child=_after_fork)
