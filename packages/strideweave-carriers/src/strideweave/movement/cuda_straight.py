"""Straight moves between page-locked memory and a device: one call of the driver each."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

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


@cache
def _one_device() -> bool:
    import torch

    return torch.cuda.device_count() == 1


class DeviceStraight:
    """In one direction, ``h2d`` or ``d2h``, to or from the caller's current device."""

    grows = False

    def __init__(self, direction: str) -> None:
        self._direction = direction
        self._up = direction == "h2d"

    def _device(self, source: TorchStorage, target: TorchStorage) -> int | None:
        """The device's index; None where the copy needs help or another current device."""
        import torch

        host, device = (source, target) if self._up else (target, source)
        assert isinstance(host, CPU) and isinstance(device, CUDA)
        if not host.is_pinned() or device._born != forks.generation or not driver.is_there():
            return None
        index = device._flat.get_device()
        return index if _one_device() or torch.cuda.current_device() == index else None

    def start(
        self, source: TorchStorage, target: TorchStorage, at: int, nbytes: int
    ) -> tuple[torch.cuda.Stream, int] | None:
        """See ``Straight.start``. On the caller's stream: who waits gains nothing from another one."""
        device = self._device(source, target)
        if device is None:
            return None
        seam.enter("submit")
        refuse_capture()
        stream = current_stream(device)
        before = pass_captures()
        try:
            seam.enter("copy")
            driver.copy(target._flat.data_ptr(), source._flat.data_ptr() + at, nbytes, stream)
        except BaseException:
            leave_captures(before)
            raise
        return stream, before

    def finish(self, begun: tuple[torch.cuda.Stream, int]) -> None:
        """See ``Straight.finish``."""
        stream, before = begun
        try:
            # Not an event: waiting for one yields the core, which adds a tenth of a millisecond.
            driver.synchronize(stream)
        finally:
            leave_captures(before)

    def submit(
        self, source: TorchStorage, target: TorchStorage, at: int, nbytes: int, flight: Flight
    ) -> bool:
        """See ``Straight.submit``. On the lane's stream, after what the caller's had queued."""
        device = self._device(source, target)
        if device is None:
            return False
        seam.enter("submit")
        on = lane(device, self._direction)
        before = pass_captures()
        try:
            order_after_caller(on, device)
            flight.keep = source._flat, target._flat
            with NothingLeft(on.stream):
                seam.enter("copy")
                driver.copy(target._flat.data_ptr(), source._flat.data_ptr() + at, nbytes, on.stream)
                on.follow(flight.completion, flight.ended)
        finally:
            leave_captures(before)
        return True
