"""Slot numbers as index tensors, kept between requests because residency rarely changes.

On a device an index is copied from page-locked memory on the stream that uses it, so that nothing waits; it is
therefore kept per stream. One that was made by ``settle_index`` serves every stream, a captured one too.
"""

from __future__ import annotations

import os
import threading
from array import array
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from ...movement import driver
from ...movement.captures import beside_captures
from ...movement.cuda_lanes import current_stream
from ...movement.interrupts import interrupts_deferred
from .. import hostmemory
from ..torch_storage import plain_torch

if TYPE_CHECKING:
    import torch

KEPT = 1024
"""Index tensors kept per process."""

WORDS = 1 << 14
"""Slot numbers that a stream's page-locked memory holds, in two halves."""

_by_stream: OrderedDict[Any, tuple[torch.Tensor, Any]] = OrderedDict()
_settled: OrderedDict[Any, torch.Tensor] = OrderedDict()


def index_tensor(indices: tuple[int, ...], device: torch.device) -> torch.Tensor | None:
    """``indices`` on the device, for the current stream; None where making it would break a graph capture."""
    import torch

    if _settled:
        found = _settled.get((indices, device))
        if found is not None:
            return found
    if device.type == "cpu":
        # Shares the array's memory, and takes a fifth of what reading the numbers one by one takes.
        made = _settled[indices, device] = torch.frombuffer(array("q", indices), dtype=torch.int64)
        _trim(_settled)
        return made
    if device.type != "cuda":
        return settle_index(indices, device)
    key = (indices, torch._C._cuda_getCurrentRawStream(device.index))
    kept = _by_stream.get(key)
    if kept is None:
        if torch.cuda.is_current_stream_capturing():
            return None
        kept = _by_stream[key] = _sent(indices, device)
        _trim(_by_stream)
    return kept[0]


def settle_index(indices: tuple[int, ...], device: torch.device) -> torch.Tensor:
    """``indices`` on the device, complete when this returns."""
    import torch

    with interrupts_deferred(), plain_torch():
        made = _settled[indices, device] = torch.tensor(indices, dtype=torch.int64, device=device)
    _trim(_settled)
    return made


def _sent(indices: tuple[int, ...], device: torch.device) -> tuple[torch.Tensor, Any]:
    """``indices`` on their way to the device on the current stream, and what must live as long."""
    import torch

    if len(indices) <= WORDS // 2 and driver.is_there():
        return sender_for(device).send(indices), None
    with interrupts_deferred(), plain_torch():
        staged = torch.tensor(indices, dtype=torch.int64, device="cpu", pin_memory=True)
        return staged.to(device, non_blocking=True), staged


class Sender:
    """Page-locked words of one stream, written in turns: a half is used again once its copies have been made.

    Safe from any thread whose current stream this is. An index is a piece of a larger tensor, which lives as long as
    one of its pieces, and the driver copies: torch takes three times as long to page-lock, allocate, copy and account
    for a few numbers as the request takes that they are for.
    """

    def __init__(self, stream: torch.cuda.Stream, device: torch.device) -> None:
        import torch

        self._stream, self._device = stream, device
        self.size = WORDS // 2
        """How many indices are sent at once at the most."""
        with interrupts_deferred(), beside_captures(), plain_torch():
            self._words = torch.empty(WORDS, dtype=torch.int64, device="cpu", pin_memory=True)
            self._sent = [driver.Event(stream) for _ in range(2)]
            self._fresh()
        self._base = self._words.data_ptr()
        self._view = hostmemory.view(self._base, 8 * WORDS).cast("q")
        self._half = 0
        self._lock = threading.Lock()

    def send(self, indices: tuple[int, ...]) -> torch.Tensor:
        """``indices``, at most half of the words, as a tensor for work on the stream from now on."""
        count = len(indices)
        with self._lock:
            if self._used + count > self.size:
                self._turn()
            used, at = self._used, self._half * self.size + self._used
            self._used += count
            self._view[at : at + count] = array("q", indices)
            driver.copy(self._goal + 8 * used, self._base + 8 * at, 8 * count, self._stream)
            return self._made.narrow(0, used, count)

    def _turn(self) -> None:
        with beside_captures():
            self._sent[self._half].record()
            self._half = 1 - self._half
            # At once nearly always: thousands of requests lie between. Passes too where it was never recorded.
            self._sent[self._half].synchronize()
            self._fresh()

    def _fresh(self) -> None:
        """A tensor for as many indices as half of the words are."""
        import torch

        with interrupts_deferred(), plain_torch():
            self._made = torch.empty(self.size, dtype=torch.int64, device=self._device)
        self._goal, self._used = self._made.data_ptr(), 0


_senders: dict[tuple[int, int], Sender] = {}
_guard = threading.Lock()


def sender_for(device: torch.device) -> Sender:
    """The sender of the calling thread's stream of ``device``, made at first use."""
    import torch

    key = device.index, torch._C._cuda_getCurrentRawStream(device.index)
    found = _senders.get(key)
    if found is not None:
        return found
    with _guard:
        found = _senders.get(key)
        if found is None:
            found = _senders[key] = Sender(current_stream(device.index), device)
        return found


def _trim(cache: OrderedDict[Any, Any]) -> None:
    if len(cache) > KEPT:
        # The oldest has long been read by whatever used it.
        cache.popitem(last=False)


_inherited: list[object] = []


def _after_fork() -> None:
    global _guard
    _guard = threading.Lock()
    # Kept, not dropped: giving device memory or events back would call a device that the child cannot use.
    _inherited.append((dict(_senders), dict(_by_stream), dict(_settled)))
    _senders.clear()
    _by_stream.clear()
    _settled.clear()


os.register_at_fork(after_in_child=_after_fork)
