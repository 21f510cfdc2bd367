"""From file to GPU through pinned memory: many threads read, one queues the copies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, Future
from typing import Any

from tilefoundry.runtime.resource.spans import Span, read_span

# torch is imported where it is first needed: importing the runtime must not load it.

__all__ = ["StagedReader", "bytes_of"]


class StagedReader:
    """Reads spans into a ring of pinned buffers on the threads of a pool and copies them on from there.

    Only the calling thread talks to torch: threads that each queue their own copies spend their time waiting
    for the interpreter's lock instead of reading. One call of ``run`` per object.

    Args:
        device: a CUDA device.
        pool: where files are read.
        threads: how many spans are read at once; as many again are being copied.
    """

    def __init__(self, device: Any, pool: Executor, threads: int) -> None:
        import torch

        self._pool, self._threads = pool, threads
        self._caller = torch.cuda.current_stream(device)
        self._stream = torch.cuda.Stream(device)
        # Destinations may be memory that work on the caller's stream still uses.
        self._stream.wait_stream(self._caller)
        self._copying: deque[_Buffer] = deque()
        self._buffers = 0

    def run(self, spans: Sequence[Span], tensors: dict[str, Any], done: Callable[[int], object]) -> None:
        """Fill ``tensors``; ``done`` hears of each span's bytes.

        Whether it succeeds or raises, every copy has ended and the caller's current stream is ordered after it.
        """
        size = max((span.length for span in spans), default=0)
        reading: deque[tuple[Future[None], Span, _Buffer]] = deque()
        targets: dict[str, Any] = {}
        try:
            for span in spans:
                if len(reading) == self._threads:
                    self._copy(*reading.popleft(), tensors, targets, done)
                buffer = self._free(size)
                reading.append(
                    (self._pool.submit(read_span, span, [buffer.view[: span.length]]), span, buffer)
                )
            while reading:
                self._copy(*reading.popleft(), tensors, targets, done)
        finally:
            self._caller.wait_stream(self._stream)
            self._stream.synchronize()

    def _free(self, size: int) -> _Buffer:
        """A new buffer while the ring grows, then the one whose copy was queued first."""
        if self._buffers < 2 * self._threads:
            self._buffers += 1
            return _Buffer(size)
        buffer = self._copying.popleft()
        buffer.copied.synchronize()
        return buffer

    def _copy(
        self,
        read: Future[None],
        span: Span,
        buffer: _Buffer,
        tensors: dict[str, Any],
        targets: dict[str, Any],
        done: Callable[[int], object],
    ) -> None:
        import torch

        read.result()
        at = 0
        with torch.cuda.stream(self._stream):
            for piece in span.pieces:
                if piece.key not in targets:
                    targets[piece.key] = bytes_of(tensors[piece.key])
                target = targets[piece.key][piece.begin : piece.begin + piece.length]
                target.copy_(buffer.memory[at : at + piece.length], non_blocking=True)
                at += piece.length
            buffer.copied = self._stream.record_event()
        self._copying.append(buffer)
        done(span.length)


class _Buffer:
    """Pinned memory, and the event after which it may be written again."""

    __slots__ = ("copied", "memory", "view")

    def __init__(self, size: int) -> None:
        import torch

        self.memory = torch.empty(size, dtype=torch.uint8, pin_memory=True)
        array: Any = self.memory.numpy()
        self.view = memoryview(array)
        self.copied: Any = None


def bytes_of(tensor: Any) -> Any:
    """A view of a contiguous tensor's memory as uint8."""
    import torch

    return tensor.reshape(-1).view(torch.uint8)
