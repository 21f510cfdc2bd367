"""Bursts: copies in the background with places between them at which a copy engine turns to other streams.

Copies of all streams in one direction may pass through one engine of the device, and it stays with a stream for as long
as copy follows copy there, whatever the streams' priorities. A write of one word between two copies ends that: whoever
comes meanwhile on another stream waits for one burst at the most.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..carriers.torch_storage import plain_torch
from . import driver
from .transfer import Run

if TYPE_CHECKING:
    import torch

BURST = 16 << 20
"""The most bytes of a burst: .3 ms of a link that moves 55 GB/s, which loses a hundredth to the places between."""


def pieces_of(runs: Iterable[Run]) -> Iterator[Run]:
    """The runs in order, none longer than a burst."""
    for run in runs:
        for start in range(0, run.nbytes, BURST):
            yield Run(run.source + start, run.target + start, min(BURST, run.nbytes - start))


def bursts_of(runs: Iterable[Run]) -> Iterator[list[Run]]:
    """The runs in order, cut and grouped into bursts."""
    burst: list[Run] = []
    room = BURST
    for piece in pieces_of(runs):
        if piece.nbytes > room and burst:
            yield burst
            burst, room = [], BURST
        burst.append(piece)
        room -= piece.nbytes
    if burst:
        yield burst


class Turn:
    """The place after a burst, queued on one stream of ``device`` as often as there are bursts."""

    def __init__(self, stream: torch.cuda.Stream, device: int) -> None:
        import torch

        self._stream = stream
        # What is written there is nobody's business. The driver writes page-locked memory, torch the device's.
        host = driver.writes_words()
        with plain_torch(), torch.cuda.device(device):
            where = "cpu" if host else torch.device("cuda", device)
            self._word = torch.zeros(1, dtype=torch.int32, device=where, pin_memory=host)
        self._address = self._word.data_ptr() if host else None

    def queue(self) -> None:
        """Let the engine turn to other streams once what is queued so far has ended."""
        import torch

        if self._address is not None:
            driver.write_word(self._address, self._stream)
            return
        with plain_torch(), torch.cuda.stream(self._stream):
            self._word.zero_()
