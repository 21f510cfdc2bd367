"""Straight moves between page-locked memory and a device: one call of the driver each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import forks, seam
from ..carriers.cpu import CPU
from ..carriers.cuda import CUDA
from ..carriers.torch_storage import TorchStorage
from . import driver
from .captures import leave_captures, pass_captures
from .cuda import order_after_caller, refuse_capture
from .cuda_lanes import NothingLeft, current_stream, lane
from .straight import Flight

if TYPE_CHECKING:
    import torch


class DeviceStraight:
    """In one direction, ``h2d`` or ``d2h``, on the caller's current device."""

    grows = False

    def __init__(self, direction: str) -> None:
        self._direction = direction

    def fits(self, source: TorchStorage, target: TorchStorage) -> bool:
        """See ``Straight.fits``."""
        import torch

        host, device = (source, target) if self._direction == "h2d" else (target, source)
        assert isinstance(host, CPU) and isinstance(device, CUDA)
        return (
            host.is_pinned()
            and device._born == forks.generation
            and driver.copies()
            and torch.cuda.current_device() == device.device.index
        )

    def start(
        self, source: TorchStorage, target: TorchStorage, at: int, nbytes: int
    ) -> tuple[torch.cuda.Stream, int]:
        """See ``Straight.start``. On the caller's stream: who waits gains nothing from another one."""
        seam.enter("submit")
        refuse_capture()
        stream = current_stream((target if self._direction == "h2d" else source).device.index or 0)
        before = pass_captures()
        try:
            _copy(source, target, at, nbytes, stream)
        except BaseException:
            leave_captures(before)
            raise
        return stream, before

    def finish(self, begun: tuple[torch.cuda.Stream, int]) -> None:
        """See ``Straight.finish``."""
        stream, before = begun
        try:
            # Not an event: waiting for one yields the core, which adds a tenth of a millisecond.
            stream.synchronize()
        finally:
            leave_captures(before)

    def submit(
        self, source: TorchStorage, target: TorchStorage, at: int, nbytes: int, flight: Flight
    ) -> bool:
        """See ``Straight.submit``. On the lane's stream, after what the caller's had queued."""
        seam.enter("submit")
        device = (target if self._direction == "h2d" else source).device.index or 0
        on = lane(device, self._direction)
        before = pass_captures()
        try:
            order_after_caller(on, device)
            flight.keep = source._flat, target._flat
            with NothingLeft(on.stream):
                _copy(source, target, at, nbytes, on.stream)
                on.follow(flight.completion, flight.ended)
        finally:
            leave_captures(before)
        return True


def _copy(source: TorchStorage, target: TorchStorage, at: int, nbytes: int, stream: Any) -> None:
    driver.bind(stream)
    seam.enter("copy")
    driver.copy(target._flat.data_ptr(), source._flat.data_ptr() + at, nbytes, stream.cuda_stream)
