"""The way through page-locked buffers, for host memory that devices cannot copy from, and for many small runs.

A worker fills or drains a ring of buffers. Runs that are small travel together in one buffer, and where they lie one
after another on the device, in one copy: a copy engine takes longer to begin than to move a few kilobytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .. import seam
from ..carriers import hostmemory
from ..carriers.base import Carrier
from ..carriers.torch_storage import TorchStorage, plain_torch
from . import driver, parallel
from .captures import beside_captures
from .cuda_lanes import SLOT, SLOTS, Lane, NothingLeft
from .interrupts import interrupts_deferred
from .pool import checkpoint
from .transfer import Run

if TYPE_CHECKING:
    import torch

FULL = 4 << 20
"""A buffer that holds this much is sent off, so that filling the next overlaps with its copy."""

SMALL = 64 << 10
"""Runs that are smaller on average are gathered on the host rather than copied one by one."""

MANY = 8
"""Fewer runs than this are copied one by one whatever their size."""

Load = list[tuple[int, Run]]
"""Pieces with their places in one buffer."""


def better_gathered(runs: Sequence[Run]) -> bool:
    """Whether ``runs`` of page-locked memory should pass through a buffer all the same."""
    return len(runs) >= MANY and sum([nbytes for _, _, nbytes in runs]) < SMALL * len(runs)


def loads(runs: Sequence[Run]) -> Iterator[Load]:
    """The runs, cut and packed into buffers."""
    load: Load = []
    used = 0
    for run in runs:
        seam.enter("copy")
        for start in range(0, run.nbytes, SLOT):
            piece = Run(run.source + start, run.target + start, min(SLOT, run.nbytes - start))
            if load and used + piece.nbytes > SLOT:
                yield load
                load, used = [], 0
            load.append((used, piece))
            used += piece.nbytes
            if used >= FULL:
                yield load
                load, used = [], 0
    if load:
        yield load


def spans(load: Load, end: int) -> Iterator[tuple[int, int, int]]:
    """``(place in the buffer, byte on the device, bytes)``, as few as can be; ``end`` is 0 where that is a source."""
    at, device, length = load[0][0], load[0][1][end], 0
    for place, piece in load:
        if piece[end] != device + length:
            yield at, device, length
            at, device, length = place, piece[end], 0
        length += piece.nbytes
    yield at, device, length


def device_bytes(carrier: Carrier) -> torch.Tensor:
    """The flat bytes of a carrier with torch storage."""
    if not isinstance(carrier, TorchStorage):
        raise TypeError(f"{type(carrier).__name__} has no torch storage")
    return carrier.flat_bytes()


def fill(source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane) -> None:
    """From the host's ``source`` into the device's ``target``; returns once every copy is queued on the lane."""
    import torch

    with (
        interrupts_deferred(),
        on.lock,
        beside_captures(),
        plain_torch(),
        torch.cuda.device(on.device),
        NothingLeft(on.stream),
    ):
        ring, goal = on.ring(), device_bytes(target)
        on.clear()
        for k, load in enumerate(loads(runs)):
            checkpoint()
            buffer, event = ring[k % SLOTS]
            event.synchronize()
            for at, piece in load:
                _read(source, piece, buffer, at)
            for at, device, nbytes in spans(load, 1):
                _queue(goal, device, buffer, at, nbytes, on)
            event.record(on.stream)
            if on.behind:
                on.give_way()


def _queue(
    target: torch.Tensor, target_at: int, source: torch.Tensor, source_at: int, nbytes: int, on: Lane
) -> None:
    """One copy between a buffer and the device, on the lane."""
    import torch

    if driver.is_there():
        driver.copy(target.data_ptr() + target_at, source.data_ptr() + source_at, nbytes, on.stream)
        return
    with torch.cuda.stream(on.stream):
        target[target_at : target_at + nbytes].copy_(
            source[source_at : source_at + nbytes], non_blocking=True
        )


def _read(source: Carrier, piece: Run, buffer: torch.Tensor, at: int) -> None:
    address, into = source.host_address(), buffer.data_ptr() + at
    if address is not None:
        parallel.copy(into, address + piece.source, piece.nbytes)
    else:
        source.load_bytes(piece.source, hostmemory.view(into, piece.nbytes))


def drain(source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane) -> None:
    """From the device's ``source`` into the host's ``target``; returns once everything is in place."""
    import torch

    with (
        interrupts_deferred(),
        on.lock,
        beside_captures(),
        plain_torch(),
        torch.cuda.device(on.device),
        NothingLeft(on.stream),
    ):
        ring, origin = on.ring(), device_bytes(source)
        on.clear()
        flying: list[tuple[int, Load]] = []
        for k, load in enumerate(loads(runs)):
            checkpoint()
            if len(flying) == SLOTS:
                _write(target, ring, *flying.pop(0))
            buffer, event = ring[k % SLOTS]
            for at, device, nbytes in spans(load, 0):
                _queue(buffer, at, origin, device, nbytes, on)
            event.record(on.stream)
            if on.behind:
                on.give_way()
            flying.append((k % SLOTS, load))
        if len(flying) == 1:
            # Waiting for its event yields the core, which takes longer than a small copy.
            on.stream.synchronize()
        for item in flying:
            _write(target, ring, *item)


def _write(target: Carrier, ring: list[tuple[torch.Tensor, torch.cuda.Event]], k: int, load: Load) -> None:
    buffer, event = ring[k]
    event.synchronize()
    address = target.host_address()
    for at, piece in load:
        origin = buffer.data_ptr() + at
        if address is not None:
            parallel.copy(address + piece.target, origin, piece.nbytes)
        else:
            target.store_bytes(piece.target, hostmemory.view(origin, piece.nbytes))
