"""Movers: how one core's bytes move and its gathers run. One per primary class.

A mover never waits. ``copy`` raises only if nothing was submitted; a later refusal comes back as a completion that
failed, so that what was submitted before it is still awaited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ... import seam
from ...dtypes import DType
from ...movement.completion import Completion
from ...movement.pool import BACKGROUND, DEMAND, pool
from ...movement.transfer import Run, transfer_for
from ..base import Carrier
from ..torch_storage import outside_inference
from .indices import index_tensor
from .slots import Slab
from .strips import Strips, joined, runs_of

HERE = object()
"""The calling thread, where no stream is involved."""

CAPTURED = object()
"""A graph that the calling thread's stream is being captured into."""

Ended = Callable[[BaseException | None], None]
"""Called once, from any thread, with what went wrong or None."""


AT_ONCE = 64 << 10
"""Up to this many bytes a gather in host memory takes less time than handing it to another thread."""


Move = tuple[Carrier, Carrier, int, int, int]
"""``(source, target, source_at, target_at, nbytes)``: bytes of one carrier to bytes of another."""


def grouped(moves: Iterable[Move]) -> dict[tuple[Carrier, Carrier], list[Run]]:
    """The moves by pair of carriers, in order of source, with adjacent ones joined."""
    spans: dict[tuple[Carrier, Carrier], list[tuple[int, int, int]]] = {}
    origin = goal = None
    into: list[tuple[int, int, int]] = []
    for source, target, source_at, target_at, nbytes in moves:
        # Neighbours are nearly always of one pair.
        if source is not origin or target is not goal:
            origin, goal = source, target
            into = spans.setdefault((source, target), [])
        into.append((source_at, target_at, nbytes))
    return {pair: joined(sorted(of_pair)) for pair, of_pair in spans.items()}


def failed(error: BaseException) -> Completion[None]:
    """A completion that has failed."""
    completion: Completion[None] = Completion()
    completion.reject(error)
    return completion


def follow_part(part: Completion[None], ended: Ended, waited: Completion[Any]) -> None:
    """Have ``ended`` called once ``part`` has settled; who waits for ``waited`` helps with it."""
    part.hurry()
    waited.assist(part)
    part.add_callback(lambda: ended(part.error))


class HostMover:
    """For primaries in host memory: copies and gathers run on the process's pool."""

    def prepare(self) -> Any:
        """What later parts of a request must wait for on a device; called on the requesting thread."""
        return None

    def prepare_for(self, core: Any, codes: Sequence[int]) -> Any:
        """``prepare`` for a projection of ``codes``; refuses what a graph capture cannot hold."""
        return None

    def in_inference(self) -> bool:
        """Whether tensors that the calling thread makes can never be written; the primary lies in torch storage."""
        import torch

        return torch.is_inference_mode_enabled()

    def is_captured(self) -> bool:
        """Whether what the calling thread queues becomes part of a graph."""
        return False

    def unordered(self) -> Any:
        """What ``gather`` takes where its target is of ``compact``: there is nothing to wait for."""
        return None

    def compact(self, prototype: Any, slots: int, dtype: DType) -> Carrier:
        """A fresh carrier like ``prototype``, in torch storage, for values that ``gather`` writes, from any thread."""
        seam.enter("allocate")
        with outside_inference():
            return type(prototype).filled(prototype._flat.new_empty(slots), dtype)

    def lend(self, carrier: Carrier) -> None:
        """Let the calling thread's stream use a carrier of ``compact``; host memory needs no leave."""

    def seal(self, prepared: Any) -> None:
        """The requesting thread has submitted what it will: later parts wait for what was queued until now."""

    def order(self, stream: Any, events: Sequence[Any], carrier: Carrier) -> None:
        """Make ``stream`` wait for events; host memory has neither."""

    def allocate(self, prototype: Carrier, slots: int) -> Carrier:
        """An uninitialised carrier like ``prototype`` for the mover's own use."""
        return prototype.allocate_like(slots, empty=True)

    def keep(self, carrier: Carrier) -> None:
        """Prepare storage that tiles will come from and go to again and again, and that nobody outside knows."""

    def copy(
        self, moves: Sequence[Move], background: bool = False, prepared: Any = None
    ) -> list[Completion[None]]:
        """Submit the moves."""
        parts: list[Completion[None]] = []
        for (source, target), runs in grouped(moves).items():
            try:
                transfer = transfer_for(type(source), type(target))
                part = transfer.submit(source, target, runs, BACKGROUND if background else DEMAND)
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
        """Submit tiles of ``size`` bytes as a copy that somebody waits for; ``ended`` is called once it has ended.

        A thread that waits for ``waited`` sees to it by itself. What this raises means that nothing was submitted.
        """
        origin, goal = source.carrier, target.carrier
        part = transfer_for(type(origin), type(goal)).submit(origin, goal, runs_of(moved, size), DEMAND)
        follow_part(part, ended, waited)

    def compute(self, job: Callable[[], None]) -> Completion[None]:
        """Run ``job`` soon; it may call kernels and copy synchronously."""
        seam.enter("submit")
        return pool().submit(job)

    def gather(
        self,
        job: Callable[[], None],
        prepared: Any,
        ended: Ended,
        waited: Completion[Any],
    ) -> Any:
        """``compute`` for a gather, then ``ended``; the event after which a device has run it, or None.

        A thread that waits for ``waited`` sees to it by itself.
        """
        done = self.compute(job)
        waited.assist(done)
        done.add_callback(lambda: ended(done.error))
        return None

    def here(self, core: Any, codes: Sequence[int], nbytes: int) -> Any:
        """Where a gather of ``codes`` that the calling thread makes itself runs; None where it should not make it."""
        return HERE if nbytes <= AT_ONCE else None

    def index(self, here: Any, places: tuple[int, ...], device: Any) -> Any:
        """``places`` as an index tensor for a gather ``here``; None where a graph capture does not allow it."""
        return index_tensor(places, device)

    def after(self, here: Any, ended: Ended, waited: Completion[Any]) -> Any:
        """Call ``ended`` once what this thread has run ``here`` is complete; the device's event for that, or None."""
        ended(None)
        return None

    def run(self, job: Callable[[], None]) -> None:
        """Run ``job`` for the calling thread, which goes on once it has ended or, on a device, is queued."""
        seam.enter("kernel")
        job()

    def finish(self) -> None:
        """Block until what this thread has run is complete; at once in host memory."""

    def guarded_compute(self, job: Callable[[], None]) -> Completion[None]:
        """``compute`` after something else was submitted: a refusal becomes a failed completion."""
        try:
            return self.compute(job)
        except BaseException as error:
            return failed(error)

    def guarded_copy(self, moves: Sequence[Move], background: bool = False) -> list[Completion[None]]:
        """``copy`` after something else was submitted: a refusal becomes a failed completion."""
        if not moves:
            return []
        try:
            return self.copy(moves, background)
        except BaseException as error:
            return [failed(error)]
