"""Copies to, from and between CUDA devices: one stream per device and direction, completions by event.

Page-locked host memory is copied in place. Everything else passes through a ring of page-locked buffers that
a pool worker fills or drains, because a non-blocking copy of pageable memory would block the caller or read
memory that has changed. Copy streams wait for what the caller's stream had queued; a handle is done once the
copy's event has passed, which a reaper thread per stream observes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import seam
from ..carriers.base import Carrier
from ..carriers.cpu import CPU
from ..carriers.torch_storage import TorchStorage, plain_torch
from . import driver
from .bursts import bursts_of, pieces_of
from .captures import beside_captures
from .completion import Completion
from .cuda_lanes import Lane, NothingLeft, current_stream, lane, queued_on
from .interrupts import interrupts_deferred
from .pool import DEMAND, pool
from .portions import Portions, fits_at_once, queue_in_turn
from .staging import better_gathered, device_bytes, drain, fill
from .transfer import Run, Submitted

if TYPE_CHECKING:
    import torch


def refuse_capture(device: int) -> None:
    """Raise RuntimeError where the current stream, or that of ``device``, is being captured into a graph.

    The copy would become part of it.
    """
    import torch

    capturing = torch.cuda.is_current_stream_capturing()
    if not capturing and torch._C._cuda_getDevice() != device:
        # torch speaks of the current device alone.
        with torch.cuda.device(device):
            capturing = torch.cuda.is_current_stream_capturing()
    if capturing:
        raise RuntimeError(
            "move: the current stream is being captured into a graph; move before or after the capture"
        )


def order_after_caller(on: Lane, device: int, after: torch.cuda.Stream | None = None) -> None:
    """Make the lane wait for what the caller's stream has queued, such as the kernel that makes the source.

    ``after`` is another stream to wait for instead, which is not being captured.

    Raises:
        RuntimeError: that stream is being captured; the copy would become part of the graph.
    """
    import torch

    if after is None:
        refuse_capture(device)
    caller = current_stream(device) if after is None else after
    stream = on.clear()
    if caller is stream:
        return
    # Asking whether it has run dry takes a fraction of what an event between the streams takes.
    if not (driver.is_idle(caller) if driver.is_there() else caller.query()):
        queued = torch.cuda.Event()
        queued.record(caller)
        queued.wait(stream)


def _device(carrier: Carrier) -> int:
    if not isinstance(carrier, TorchStorage):
        raise TypeError(f"{type(carrier).__name__} lies on no device")
    return carrier.device.index or 0


class OnDevice(Submitted):
    """What transfers that a device makes have in common."""

    def submit(
        self,
        source: Carrier,
        target: Carrier,
        runs: Sequence[Run],
        priority: int = DEMAND,
        after: torch.cuda.Stream | None = None,
    ) -> Completion[None]:
        """See ``Transfer.submit``; with ``after`` the copies wait for that stream, not for the caller's."""
        raise NotImplementedError  # abstract: each direction submits in its own way


class ToDevice(OnDevice):
    """From a carrier that the host reads to a CUDA carrier."""

    def submit(
        self,
        source: Carrier,
        target: Carrier,
        runs: Sequence[Run],
        priority: int = DEMAND,
        after: torch.cuda.Stream | None = None,
    ) -> Completion[None]:
        """See ``OnDevice.submit``."""
        if not better_gathered(runs):
            straight = _straight(source, runs, 0)
            if straight is not None:
                return _pinned(source, target, straight, _device(target), "h2d", priority, after)
        on = _begin(_device(target), "h2d", priority, after)
        return _on_worker(
            lambda: _to_device(source, target, tuple(runs), on, priority), on, (source, target), priority
        )

    def perform(self, source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
        """See ``Transfer.perform``."""
        if isinstance(source, CPU) and source.is_pinned() and not better_gathered(runs):
            _block(source, target, runs, _device(target))
        else:
            on = _begin(_device(target), "h2d")
            fill(source, target, tuple(runs), on)
            with beside_captures():
                # Not an event: waiting for one yields the core.
                on.stream.synchronize()


class FromDevice(OnDevice):
    """From a CUDA carrier to a carrier that the host writes."""

    def submit(
        self,
        source: Carrier,
        target: Carrier,
        runs: Sequence[Run],
        priority: int = DEMAND,
        after: torch.cuda.Stream | None = None,
    ) -> Completion[None]:
        """See ``OnDevice.submit``."""
        straight = _straight(target, runs, 1)
        if straight is not None:
            return _pinned(source, target, straight, _device(source), "d2h", priority, after)
        on = _begin(_device(source), "d2h", priority, after)
        return _on_worker(
            lambda: _from_device(source, target, tuple(runs), on, priority), on, (source, target), priority
        )

    def perform(self, source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
        """See ``Transfer.perform``."""
        if isinstance(target, CPU) and target.is_pinned():
            _block(source, target, runs, _device(source))
        else:
            on = _begin(_device(source), "d2h")
            drain(source, target, tuple(runs), on)


def _straight(host: Carrier, runs: Sequence[Run], end: int) -> Sequence[Run] | None:
    """The runs as the device can copy them without help; None where the host's memory is not page-locked."""
    if not isinstance(host, CPU):
        return None
    if host.is_pinned():
        return runs
    pinning = host.pinning
    return pinning.cut(runs, end) if pinning is not None and pinning.holds(runs, end) else None


def straight_to_device(source: Carrier, runs: Sequence[Run]) -> Sequence[Run] | None:
    """The runs as the driver takes them at once; None where a worker or a buffer is needed, or there is no driver."""
    if not driver.is_there() or better_gathered(runs):
        return None
    return _straight(source, runs, 0)


def _locked(host: Carrier, runs: Sequence[Run], end: int, on: Lane) -> Sequence[Run] | None:
    """``_straight``, after page-locking what the runs touch where the carrier is meant for that; on a worker."""
    if not isinstance(host, CPU) or host.pinning is None or better_gathered(runs):
        return None
    # Any call of the runtime makes the device's context this thread's.
    on.stream.query()
    return host.pinning.cut(runs, end) if host.pinning.make(runs, end) else None


def _to_device(source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane, priority: int) -> None:
    import torch

    with beside_captures(), torch.cuda.device(on.device):
        straight = _locked(source, runs, 0, on)
        if straight is not None:
            _enqueue_all(source, target, straight, on, priority)
            return
    fill(source, target, runs, on)


def _from_device(source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane, priority: int) -> None:
    import torch

    with beside_captures(), torch.cuda.device(on.device):
        straight = _locked(target, runs, 1, on)
        if straight is not None:
            _enqueue_all(source, target, straight, on, priority)
            return
    drain(source, target, runs, on)


class BetweenDevices(OnDevice):
    """Within a CUDA device or from one to another."""

    def submit(
        self,
        source: Carrier,
        target: Carrier,
        runs: Sequence[Run],
        priority: int = DEMAND,
        after: torch.cuda.Stream | None = None,
    ) -> Completion[None]:
        """See ``OnDevice.submit``."""
        return _pinned(source, target, runs, _device(target), "d2d", DEMAND, after)

    def perform(self, source: Carrier, target: Carrier, runs: Sequence[Run]) -> None:
        """See ``Transfer.perform``."""
        _block(source, target, runs, _device(target))


def _begin(
    device: int, direction: str, priority: int = DEMAND, after: torch.cuda.Stream | None = None
) -> Lane:
    seam.enter("submit")
    with beside_captures():
        on = lane(device, direction, priority)
        order_after_caller(on, device, after)
    return on


def _pinned(
    source: Carrier,
    target: Carrier,
    runs: Sequence[Run],
    device: int,
    direction: str,
    priority: int,
    after: torch.cuda.Stream | None,
) -> Completion[None]:
    """Copies that the device makes by itself, queued on its lane."""
    completion: Completion[None] = Completion()
    seam.enter("submit")
    with beside_captures():
        on = lane(device, direction, priority)
        order_after_caller(on, device, after)
        if direction == "d2d" and _device(source) != device:
            order_after_caller(on, _device(source))
        if priority == DEMAND:
            keep: object = _enqueue(source, target, runs, on)
        elif fits_at_once(runs):
            keep = _enqueue_behind(source, target, runs, on)
        else:
            portions = Portions(
                pieces_of(runs), lambda part: _enqueue_behind(source, target, part, on), on, (source, target)
            )
            portions.begin()
            return portions.completion
        on.finish(completion, (source, target, keep))
    return completion


def _block(source: Carrier, target: Carrier, runs: Sequence[Run], device: int) -> None:
    # A caller that waits anyway gains nothing from a stream of its own or from the reaper, and both cost more
    # than a small copy.
    seam.enter("submit")
    refuse_capture(device)
    stream = current_stream(device)
    with interrupts_deferred(), beside_captures(), plain_torch(), NothingLeft(stream):
        _copy_runs(source, target, runs)
        # Not an event: waiting for one yields the core, which adds a tenth of a millisecond.
        stream.synchronize()


def _enqueue(
    source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane
) -> tuple[torch.Tensor, torch.Tensor]:
    on.clear()
    if driver.is_there() and _within_one_device(source, target):
        with NothingLeft(on.stream):
            return _copy_by_driver(source, target, runs, on)
    with interrupts_deferred(), plain_torch(), queued_on(on.stream), NothingLeft(on.stream):
        return _copy_runs(source, target, runs)


def _enqueue_behind(source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane) -> object:
    """``_enqueue`` for copies that nobody waits for: those that somebody waits for find places between them."""
    keep: object = None
    with NothingLeft(on.stream):
        for burst in bursts_of(runs):
            keep = _enqueue(source, target, burst, on)
            on.give_way()
    return keep


def _enqueue_all(source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane, priority: int) -> None:
    """On a worker, which may wait between the portions of a copy in the background."""
    if priority == DEMAND:
        _enqueue(source, target, runs, on)
    else:
        with NothingLeft(on.stream):
            queue_in_turn(pieces_of(runs), lambda part: _enqueue_behind(source, target, part, on), on)


def _within_one_device(source: Carrier, target: Carrier) -> bool:
    devices = {c.device.index for c in (source, target) if isinstance(c, TorchStorage) and not c.host}
    return len(devices) == 1


def _copy_by_driver(
    source: Carrier, target: Carrier, runs: Sequence[Run], on: Lane
) -> tuple[torch.Tensor, torch.Tensor]:
    origin, goal = device_bytes(source), device_bytes(target)
    for _ in runs:
        seam.enter("copy")
    driver.copy_runs(goal.data_ptr(), origin.data_ptr(), runs, on.stream)
    return origin, goal


def _copy_runs(source: Carrier, target: Carrier, runs: Sequence[Run]) -> tuple[torch.Tensor, torch.Tensor]:
    origin, goal = device_bytes(source), device_bytes(target)
    for run in runs:
        seam.enter("copy")
        _part(goal, run.target, run.nbytes).copy_(_part(origin, run.source, run.nbytes), non_blocking=True)
    return origin, goal


def _part(flat: torch.Tensor, start: int, nbytes: int) -> torch.Tensor:
    return flat if nbytes == flat.numel() else flat[start : start + nbytes]


def _on_worker(job: Callable[[], None], on: Lane, keep: object, priority: int) -> Completion[None]:
    completion: Completion[None] = Completion()
    inner = pool().submit(job, priority)

    def after() -> None:
        if inner.error is not None:
            completion.reject(inner.error)
        else:
            on.finish(completion, keep)

    completion.assist(inner)
    inner.add_callback(after)
    return completion


TO_DEVICE, FROM_DEVICE, BETWEEN = ToDevice(), FromDevice(), BetweenDevices()
