"""From file to GPU through pinned memory."""

from __future__ import annotations

import threading
from typing import Any

from tilefoundry.runtime.resource.read_many import SPAN_BYTES, Span, read_span

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["StagedReader"]

_BUFFERS = 2


class StagedReader:
    """Reads spans into pinned buffers and copies them on from there; each thread has buffers of its own.

    Args:
        device: a CUDA device.

    ``close`` makes the caller's current stream wait for every copy and the host for the buffers.
    """

    def __init__(self, device: Any) -> None:
        import torch

        self._device = device
        self._caller = torch.cuda.current_stream(device)
        # Destinations may be memory that work on the caller's stream still uses.
        self._ready = self._caller.record_event()
        self._local = threading.local()
        self._lanes: list[_Lane] = []

    def read(self, span: Span, tensors: dict[str, Any]) -> None:
        """Read ``span`` and queue the copies into ``tensors``; thread-safe."""
        if not hasattr(self._local, "lane"):
            self._local.lane = _Lane(self._device, self._ready)
            self._lanes.append(self._local.lane)
        self._local.lane.read(span, tensors)

    def close(self) -> None:
        """Wait for every queued copy."""
        for lane in self._lanes:
            self._caller.wait_stream(lane.stream)
            lane.stream.synchronize()


class _Lane:
    """One thread's stream and pinned buffers."""

    def __init__(self, device: Any, ready: Any) -> None:
        import torch

        self.device = device
        self.stream = torch.cuda.Stream(device)
        self.stream.wait_event(ready)
        self.buffers = [torch.empty(SPAN_BYTES, dtype=torch.uint8, pin_memory=True) for _ in range(_BUFFERS)]
        self.copied: list[Any] = [None] * _BUFFERS
        self.turn = 0

    def read(self, span: Span, tensors: dict[str, Any]) -> None:
        import torch

        slot, self.turn = self.turn, (self.turn + 1) % _BUFFERS
        if self.copied[slot] is not None:
            self.copied[slot].synchronize()
        buffer = self.buffers[slot]
        view: Any = buffer.numpy()
        read_span(span, [memoryview(view)[: span.length]])
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            at = 0
            for piece in span.pieces:
                target = tensors[piece.key].reshape(-1).view(torch.uint8)
                source = buffer[at : at + piece.length]
                target[piece.begin : piece.begin + piece.length].copy_(source, non_blocking=True)
                at += piece.length
            self.copied[slot] = self.stream.record_event()
