"""Transfers: how bytes get from one carrier class to another, found by the exact pair of classes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from .. import seam
from ..carriers import hostmemory
from ..carriers.base import Carrier
from ..errors import UnsupportedOperationPlan
from . import parallel
from .completion import Completion
from .interrupts import interrupts_deferred
from .pool import CHUNK, DEMAND, checkpoint, pool

BOUNCE = 8 << 20


class Run(NamedTuple):
    """``nbytes`` bytes from byte ``source`` of one carrier to byte ``target`` of another."""

    source: int
    target: int
    nbytes: int


class Transfer(Protocol):
    """Moves runs of bytes between carriers of one pair of classes."""

    def submit(
        self, source: Carrier, target: Carrier, runs: Sequence[Run], priority: int = DEMAND
    ) -> Completion[None]:
        """Begin; the completion settles once every byte is in place, or with what went wrong.

        The caller holds both carriers until then. What ``submit`` itself raises means that nothing began.
        """
        ...

    def perform(self, source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
        """The same, blocking; a host copy runs on the calling thread."""
        ...


class Submitted:
    """What a transfer that always hands its work over does when asked to block."""

    def submit(
        self, source: Carrier, target: Carrier, runs: Sequence[Run], priority: int = DEMAND
    ) -> Completion[None]:
        """See ``Transfer.submit``."""
        raise NotImplementedError  # abstract: each transfer submits in its own way

    def perform(self, source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
        """See ``Transfer.perform``."""
        part = self.submit(source, target, runs)
        # What raises has ended: the caller gives room and holds back at once.
        with interrupts_deferred():
            part.result()


class HostTransfer:
    """Between carriers that the host reads and writes: memory, files, block devices. Runs on the pool."""

    def submit(
        self, source: Carrier, target: Carrier, runs: Sequence[Run], priority: int = DEMAND
    ) -> Completion[None]:
        """See ``Transfer.submit``."""
        seam.enter("submit")
        kept = tuple(runs)
        return pool().submit(lambda: copy_runs(source, target, kept), priority)

    def perform(self, source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
        """See ``Transfer.perform``."""
        seam.enter("submit")
        copy_runs(source, target, runs)


def copy_runs(source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
    """Copy on the calling thread, in chunks between which an exit may cut in."""
    for run in runs:
        seam.enter("copy")
        checkpoint()
        if run.nbytes <= CHUNK:
            _copy_piece(source, target, run)
            continue
        for start in range(0, run.nbytes, CHUNK):
            checkpoint()
            piece = Run(run.source + start, run.target + start, min(CHUNK, run.nbytes - start))
            _copy_piece(source, target, piece)


def _copy_piece(source: Carrier, target: Carrier, run: Run) -> None:
    origin, goal = source.host_address(), target.host_address()
    if goal is not None and origin is not None:
        parallel.copy(goal + run.target, origin + run.source, run.nbytes)
    elif goal is not None:
        source.load_bytes(run.source, hostmemory.view(goal + run.target, run.nbytes))
    elif origin is not None:
        target.store_bytes(run.target, hostmemory.view(origin + run.source, run.nbytes))
    else:
        buffer = memoryview(bytearray(min(BOUNCE, run.nbytes)))
        for start in range(0, run.nbytes, BOUNCE):
            part = buffer[: min(BOUNCE, run.nbytes - start)]
            source.load_bytes(run.source + start, part)
            target.store_bytes(run.target + start, part)


_table: dict[tuple[type, type], Transfer] = {}
_host_classes: set[type] = set()
_HOST = HostTransfer()


def register_transfer(source: type, target: type, transfer: Transfer) -> None:
    """Provide for moves from exactly ``source`` to exactly ``target``.

    Raises:
        ValueError: the pair has a transfer already.
    """
    if transfer_or_none(source, target) is not None:
        raise ValueError(f"register_transfer: {source.__name__} to {target.__name__} is provided for already")
    _table[source, target] = transfer


def register_host_carrier(cls: type) -> None:
    """Let ``cls``, whose ``load_bytes`` and ``store_bytes`` work from the host, move to and from its like."""
    _host_classes.add(cls)


def transfer_or_none(source: type, target: type) -> Transfer | None:
    """The transfer for a pair of classes, or None."""
    if source in _host_classes and target in _host_classes:
        return _HOST
    return _table.get((source, target))


def transfer_for(source: type, target: type) -> Transfer:
    """The transfer for a pair of classes.

    Raises:
        UnsupportedOperationPlan: there is none; the message lists where ``source`` can move to.
    """
    found = transfer_or_none(source, target)
    if found is None:
        reach = sorted(t.__name__ for s, t in _table if s is source)
        if source in _host_classes:
            reach = sorted({*reach, *(c.__name__ for c in _host_classes)})
        raise UnsupportedOperationPlan(
            f"move: no transfer from {source.__name__} to {target.__name__}; from {source.__name__} there is one to "
            f"{', '.join(reach) or 'no class'}"
        )
    return found
