"""Copies to and from Apple's GPU: synchronous torch copies on a pool worker."""

from __future__ import annotations

from collections.abc import Sequence

from .. import seam
from ..carriers.base import Carrier
from .completion import Completion
from .pool import DEMAND, checkpoint, pool
from .transfer import Run, Submitted

BOUNCE = 32 << 20


class MetalTransfer(Submitted):
    """Between a Metal carrier and one that the host reads and writes."""

    def submit(
        self, source: Carrier, target: Carrier, runs: Sequence[Run], priority: int = DEMAND
    ) -> Completion[None]:
        """See ``Transfer.submit``."""
        seam.enter("submit")
        kept = tuple(runs)
        return pool().submit(lambda: _copy(source, target, kept), priority)


def _copy(source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
    for run in runs:
        seam.enter("copy")
        buffer = memoryview(bytearray(min(BOUNCE, run.nbytes)))
        for start in range(0, run.nbytes, BOUNCE):
            checkpoint()
            part = buffer[: min(BOUNCE, run.nbytes - start)]
            source.load_bytes(run.source + start, part)
            target.store_bytes(run.target + start, part)
