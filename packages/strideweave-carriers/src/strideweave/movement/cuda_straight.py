"""Straight moves between host memory and a device: one call of the driver each.

Whoever waits for a small copy pays for every microsecond of Python before the copy begins and after it has ended, and
for none between, so what can wait is done while the copy runs.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from .. import forks, seam
from ..carriers.cuda import CUDA
from ..tensor import Tensor
from . import driver
from .captures import leave_captures, pass_captures
from .cuda import order_after_caller, refuse_capture
from .cuda_lanes import lane
from .flight import Flight
from .straight import Result

LOOSE = 8 << 20
"""Up to this many bytes the driver copies memory that is not page-locked faster than the ring of buffers does."""


class _Torch:
    """What is asked of torch before each copy, without the layers that ask other things first."""

    __slots__ = ("alone", "current_device", "raw_stream")

    def __init__(self) -> None:
        import torch

        self.current_device, self.raw_stream = torch._C._cuda_getDevice, torch._C._cuda_getCurrentRawStream
        self.alone = torch.cuda.device_count() == 1


_torch = cache(_Torch)


class DeviceStraight:
    """In one direction, ``h2d`` or ``d2h``, to or from the caller's current device."""

    grows = False

    def __init__(self, direction: str) -> None:
        self._direction = direction
        self._up = direction == "h2d"

    def _way(self, device: CUDA) -> tuple[driver.Calls, int, int] | None:
        """The driver, the device's index and its current stream's handle; None where it is not the current device.

        Raises:
            RuntimeError: that stream is being captured.
        """
        if device._born != forks.generation:
            return None
        asked, index = _torch(), device._flat.get_device()
        if not asked.alone and asked.current_device() != index:
            return None
        calls = driver.bound(index)
        if calls is None:
            return None
        if seam.hook is not None:
            seam.enter("submit")
        stream = asked.raw_stream(index)
        # The legacy stream cannot be captured.
        if stream:
            refuse_capture(index)
        return calls, index, stream

    def perform(
        self, tensor: Tensor, source: Any, target: Any, at: int, nbytes: int, finished: Result
    ) -> Tensor | None:
        """See ``Straight.perform``. On the caller's stream: who waits gains nothing from another one.

        A copy of memory that is not page-locked is right here, where nothing goes on before it has ended.
        """
        host, device = (source, target) if self._up else (target, source)
        if not host.is_pinned() and (nbytes > LOOSE or host.pinning is not None):
            return None
        way = self._way(device)
        if way is None:
            return None
        calls, _, stream = way
        if seam.hook is not None:
            seam.enter("copy")
        try:
            # Captures of other threads allow a copy to be queued, unlike waiting for it.
            status = calls.copy(target._flat.data_ptr(), source._flat.data_ptr() + at, nbytes, stream)
            if status:
                driver.refuse(status, f"copy of {nbytes} bytes")
            return finished(tensor, target)
        finally:
            before = pass_captures()
            try:
                # Not an event: waiting for one yields the core, which adds a tenth of a millisecond.
                status = calls.stream_synchronize(stream)
            finally:
                leave_captures(before)
            if status:
                driver.refuse(status, "work of the device")

    def submit(
        self,
        tensor: Tensor,
        source: Any,
        target: Any,
        at: int,
        nbytes: int,
        finished: Result,
        flight: Flight,
    ) -> bool:
        """See ``Straight.submit``. On the lane's stream, after what the caller's had queued."""
        host, device = (source, target) if self._up else (target, source)
        way = self._way(device) if host.is_pinned() else None
        if way is None:
            return False
        calls, index, stream = way
        on = lane(index, self._direction)
        before = pass_captures()
        try:
            if calls.stream_query(stream) == driver.NOT_READY:
                order_after_caller(on, index)
            seam.enter("copy")
            goal, origin = flight.keep = target._flat, source._flat
            try:
                status = calls.copy(goal.data_ptr(), origin.data_ptr() + at, nbytes, on.handle)
                if status:
                    driver.refuse(status, f"copy of {nbytes} bytes")
                flight.tensor = finished(tensor, target)
                on.carry(flight, nbytes)
            except BaseException:
                on.stream.synchronize()
                raise
        finally:
            leave_captures(before)
        return True
