"""The mover of CUDA primaries: copies on the device's copy streams, gathers on the caller's stream or a copy stream.

Storage that the mover allocates belongs to the host-to-device stream, so that a copy into it need not wait for what
the caller's stream has queued. What a kernel reads is kept alive until its event has passed. A gather that the
requesting thread submits runs on that thread's current stream, where it is ordered without any event; a later one,
for tiles that arrived meanwhile, runs on the device-to-device stream, after what the caller had queued at first.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ... import seam
from ...dtypes import DType
from ...movement import driver
from ...movement.captures import beside_captures
from ...movement.completion import Completion
from ...movement.cuda import OnDevice, straight_to_device
from ...movement.cuda_lanes import Lane, Marks, current_stream, follow, lane, queued_on
from ...movement.cuda_route import Route
from ...movement.pool import BACKGROUND, DEMAND
from ...movement.reaper import Reaper
from ...movement.staging import SMALL
from ...movement.transfer import Run, Transfer, transfer_for
from ..base import Carrier
from ..cpu import CPU
from ..cuda import CUDA
from ..torch_storage import WHOLE_PAGES, outside_inference
from .indices import index_tensor
from .mover import CAPTURED, Ended, Move, failed, follow_part, grouped
from .own_streams import own_stream
from .prepared import UNORDERED, Prepared
from .slots import Slab
from .strips import Strips, runs_of

if TYPE_CHECKING:
    import torch


def _require_held(core: Any, codes: Sequence[int]) -> None:
    if not all(c in core.held for c in codes):
        raise RuntimeError(
            "project: this stream is being captured and not every tile is held; enter "
            "carrier.hold(selection) before the capture and project within it"
        )


class CudaMover:
    """Moves and gathers for primaries on one device."""

    def __init__(self, device: int) -> None:
        import torch

        self.device = device
        # Looking a function of torch up takes as long as calling it.
        self._current = torch._C._cuda_getDevice
        self.in_inference: Callable[[], bool] = torch.is_inference_mode_enabled
        """See ``HostMover.in_inference``."""
        self.is_captured: Callable[[], bool] = torch._C._cuda_isCurrentStreamCapturing
        """See ``HostMover.is_captured``."""

    # --- requests ----------------------------------------------------------------------------------------

    def prepare(self) -> Prepared:
        """See ``HostMover.prepare``."""
        import torch

        if torch._C._cuda_isCurrentStreamCapturing():
            return Prepared(None, None)
        own = own_stream(self.device)
        return Prepared(own.stream, own.marks)

    def unordered(self) -> Prepared:
        """See ``HostMover.unordered``."""
        return UNORDERED

    def compact(self, prototype: Any, slots: int, dtype: DType) -> Carrier:
        """See ``HostMover.compact``: memory of the stream that gathers, which nothing queued by the caller can use."""
        seam.enter("allocate")
        with beside_captures(), outside_inference(), queued_on(lane(self.device, "d2d").stream):
            return CUDA.filled(prototype._flat.new_empty(slots), dtype)

    def lend(self, carrier: Carrier) -> None:
        """See ``HostMover.lend``."""
        assert isinstance(carrier, CUDA)
        carrier.flat().record_stream(current_stream(self.device))

    def seal(self, prepared: Prepared) -> None:
        """See ``HostMover.seal``."""
        _ = prepared.event
        # The thread may do later parts too, while it waits; by then its stream may have more queued, or be another.
        prepared.thread = None

    def prepare_for(self, core: Any, codes: Sequence[int]) -> Prepared:
        """``prepare`` for a projection of ``codes``.

        Raises:
            RuntimeError: a graph is being captured, and not every tile is held.
        """
        prepared = self.prepare()
        if prepared.stream is None:
            _require_held(core, codes)
        return prepared

    def order(self, stream: Any, events: Sequence[Any], carrier: Carrier) -> None:
        """Make ``stream`` (default: the current one) wait for events, and keep the memory until it is done."""

        chosen = current_stream(self.device) if stream is None else stream
        # What the stream itself has run is ordered on it, and its memory is that stream's.
        others = [event for event in events if getattr(event, "stream", None) is not chosen]
        for event in others:
            event.wait(chosen)
        if others:
            assert isinstance(carrier, CUDA)
            carrier.flat().record_stream(chosen)

    # --- storage and copies ------------------------------------------------------------------------------

    def allocate(self, prototype: Carrier, slots: int) -> Carrier:
        """See ``HostMover.allocate``."""
        import torch

        if not isinstance(prototype, CUDA):
            return prototype.allocate_like(slots, empty=True)
        with beside_captures(), torch.cuda.stream(lane(self.device, "h2d").stream):
            return prototype.allocate_like(slots, empty=True)

    def keep(self, carrier: Carrier) -> None:
        """See ``HostMover.keep``: host memory is page-locked as copies come to touch it.

        Only what nobody outside can have a view of: a copy of more than one of the pieces that are locked one by one,
        made by torch for somebody else, is refused by the driver.
        """
        if isinstance(carrier, CPU) and carrier.nbytes() >= WHOLE_PAGES:
            carrier.pin_lazily()

    def copy(
        self, moves: Sequence[Move], background: bool = False, prepared: Prepared | None = None
    ) -> list[Completion[None]]:
        """See ``HostMover.copy``. On a copy stream, so that the caller's queued work is not waited for."""

        parts: list[Completion[None]] = []
        for (source, target), runs in grouped(moves).items():
            try:
                transfer = transfer_for(type(source), type(target))
                on = lane(self.device, _direction(source, target)).clear()
                event = prepared.event if prepared is not None else None
                if event is not None:
                    on.wait_event(event)
                part = self._submitted(
                    transfer, source, target, runs, BACKGROUND if background else DEMAND, on
                )
                # A commit or a gather follows.
                part.hurry()
                parts.append(part)
            except BaseException as error:
                if not parts:
                    raise
                parts.append(failed(error))
                break
        return parts

    def carry(
        self, source: Slab, target: Slab, moved: Strips, size: int, ended: Ended, waited: Completion[Any]
    ) -> None:
        """See ``HostMover.carry``: on the copy stream, and without a hop where the driver can copy right away."""
        origin, goal = source.carrier, target.carrier
        if type(goal) is CUDA and (driver.alone() or self._current() == self.device):
            if size >= SMALL and type(origin) is CPU and origin.is_pinned() and driver.is_there():
                self._route(source, target, size).send(*moved, ended, waited)
                return
            straight = straight_to_device(origin, runs_of(moved, size))
            if straight is not None:
                self._route(source, target, size).send_runs(straight, ended, waited)
                return
        transfer = transfer_for(type(origin), type(goal))
        on = lane(self.device, _direction(origin, goal)).clear()
        follow_part(self._submitted(transfer, origin, goal, runs_of(moved, size), DEMAND, on), ended, waited)

    def _route(self, source: Slab, target: Slab, size: int) -> Route:
        origin, goal = source.carrier._flat, target.carrier._flat  # type: ignore[attr-defined] # in torch storage
        found = target.route
        if found is None or not found.leads(origin, goal):
            found = Route(origin, goal, size, lane(self.device, "h2d"))
            # A slab of one tile may go with it.
            if source.tiles > 1:
                target.route = found
        return found

    def _submitted(
        self,
        transfer: Transfer,
        source: Carrier,
        target: Carrier,
        runs: list[Run],
        priority: int,
        on: torch.cuda.Stream,
    ) -> Completion[None]:
        """Submit after what ``on`` has queued; the stream of the calling thread has no part in it."""
        import torch

        if isinstance(transfer, OnDevice) and torch.cuda.current_device() == self.device:
            return transfer.submit(source, target, runs, priority, on)
        with beside_captures(), queued_on(on):
            return transfer.submit(source, target, runs, priority)

    def guarded_copy(self, moves: Sequence[Move], background: bool = False) -> list[Completion[None]]:
        """See ``HostMover.guarded_copy``."""
        if not moves:
            return []
        try:
            return self.copy(moves, background)
        except BaseException as error:
            return [failed(error)]

    # --- kernels -----------------------------------------------------------------------------------------

    def gather(
        self,
        job: Callable[[], None],
        prepared: Prepared,
        ended: Ended,
        waited: Completion[Any],
    ) -> Any:
        """Run ``job`` on the caller's stream if this is the requesting thread, else on a copy stream."""
        if prepared.thread == threading.get_ident():
            stream = prepared.stream
            if stream is None:
                job()
                ended(None)
                return None
            own = own_stream(self.device)
            return _watched(job, own.reaper, own.marks, ended, waited)
        on = lane(self.device, "d2d")
        event = prepared.event
        if event is not None:
            on.stream.wait_event(event)
        return self._on_lane(job, on, ended, waited)

    def here(self, core: Any, codes: Sequence[int], nbytes: int) -> Any:
        """The current stream, or ``CAPTURED`` within a graph capture.

        Raises:
            RuntimeError: a graph is being captured, and not every tile is held.
        """
        if self.is_captured():
            _require_held(core, codes)
            return CAPTURED
        return own_stream(self.device)

    def index(self, here: Any, places: tuple[int, ...], device: torch.device) -> torch.Tensor | None:
        """See ``HostMover.index``."""
        return index_tensor(places, device) if here is CAPTURED else here.index(places, device)

    def after(self, here: Any, ended: Ended, waited: Completion[Any]) -> Any:
        """See ``HostMover.after``."""
        if here is CAPTURED:
            ended(None)
            return None
        event = here.marks.take()
        follow(here.reaper, here.marks, event, ended, waited, True)
        return event

    def _on_lane(self, job: Callable[[], None], on: Lane, ended: Ended, waited: Completion[Any]) -> Any:
        import torch

        with beside_captures(), torch.cuda.device(self.device), torch.cuda.stream(on.stream):
            return _watched(job, on.reaper, on.marks, ended, waited)

    def compute(self, job: Callable[[], None]) -> Completion[None]:
        """Run ``job``, which touches slabs alone, on a copy stream."""
        seam.enter("submit")
        completion: Completion[None] = Completion()

        def ended(error: BaseException | None) -> None:
            if error is None:
                completion.resolve(None)
            else:
                completion.reject(error)

        self._on_lane(job, lane(self.device, "d2d"), ended, completion)
        return completion

    def guarded_compute(self, job: Callable[[], None]) -> Completion[None]:
        """See ``HostMover.guarded_compute``."""
        try:
            return self.compute(job)
        except BaseException as error:
            return failed(error)

    def run(self, job: Callable[[], None]) -> None:
        """Run ``job`` on the current stream and wait for it: what it reads may be dropped afterwards."""
        seam.enter("kernel")
        job()
        self.finish()

    def finish(self) -> None:
        """Block until the current stream has done what was queued."""
        import torch

        if not torch.cuda.is_current_stream_capturing():
            torch.cuda.current_stream(self.device).synchronize()


def _watched(
    job: Callable[[], None],
    reaper: Reaper,
    marks: Marks,
    ended: Ended,
    waited: Completion[Any],
) -> Any:
    """Run ``job`` now and call ``ended`` once its stream has done it; what the job holds lives until then.

    A thread that waits for ``waited`` sees to it by itself.
    """
    job()
    event = marks.take()
    follow(reaper, marks, event, ended, waited, keep=job)
    return event


def _direction(source: Carrier, target: Carrier) -> str:
    if isinstance(source, CUDA):
        return "d2d" if isinstance(target, CUDA) else "d2h"
    return "h2d"
