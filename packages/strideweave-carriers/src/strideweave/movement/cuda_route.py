"""Copies to a device that somebody waits for, from the call that wants them: one call of the driver and one event.

What lies between that call and the copy is Python on the caller's thread, with caches that other work has filled, so
nothing is looked up that stays the same from copy to copy, and nothing is made that only the end of the copy needs.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .. import seam
from . import driver
from .captures import beside_captures
from .completion import Completion
from .cuda_lanes import Lane, follow
from .reaper import Settle
from .transfer import Run

if TYPE_CHECKING:
    import torch


class Route:
    """The way for equal pieces of ``nbytes`` from ``origin``, which is page-locked, to ``goal`` on a lane's device.

    It keeps both alive. Pieces are counted from the beginning of either. Safe from any thread.
    """

    __slots__ = ("_begins", "_ends", "_goal", "_lane", "_nbytes", "_origin")

    def __init__(self, origin: torch.Tensor, goal: torch.Tensor, nbytes: int, lane: Lane) -> None:
        self._origin, self._goal, self._nbytes, self._lane = origin, goal, nbytes, lane
        self._begins, self._ends = addresses(origin, nbytes), addresses(goal, nbytes)

    def leads(self, origin: torch.Tensor, goal: torch.Tensor) -> bool:
        """Whether it is the way from ``origin`` to ``goal``."""
        return origin is self._origin and goal is self._goal

    def send(
        self,
        sources: Sequence[int],
        targets: Sequence[int],
        lengths: Sequence[int] | None,
        ended: Settle,
        waited: Completion[Any],
    ) -> None:
        """Queue copies of ``lengths`` pieces (None: one each) from places ``sources`` to ``targets``.

        The lane's device is torch's current one, and its driver is there. ``ended`` is called once they are in place,
        or with what went wrong; a thread that waits for ``waited`` sees to it.
        What is raised means that nothing is under way.
        """
        queue = self._one_by_one if len(sources) < driver.BATCH else self._together
        self._send(queue, len(sources), (sources, targets, lengths), ended, waited)

    def send_runs(self, runs: Sequence[Run], ended: Settle, waited: Completion[Any]) -> None:
        """``send`` for copies that are given in bytes."""
        self._send(self._as_given, len(runs), (runs,), ended, waited)

    def _send(
        self,
        queue: Callable[..., None],
        count: int,
        copies: tuple[Any, ...],
        ended: Settle,
        waited: Completion[Any],
    ) -> None:
        if seam.hook is not None:
            seam.enter("submit")
            seam.enter_each("copy", count)
        on = self._lane
        calls = driver.bound(on.device)
        stream = on.clear()
        try:
            # Copies of page-locked memory and records of events leave captures of other threads alone in any mode.
            queue(calls, *copies)
            event = on.marks.take_bound(calls)  # type: ignore[arg-type] # the driver is there
        except BaseException:
            # Some may be queued already; their memory may be given back afterwards.
            with beside_captures():
                stream.synchronize()
            raise
        # Waking the reaper takes as long as a copy: it looks by itself in a while, and who waits sees to it.
        follow(on.reaper, on.marks, event, ended, waited, not waited.urgent, (self._origin, self._goal))

    def _as_given(self, calls: driver.Calls, runs: Sequence[Run]) -> None:
        driver.copy_runs(self._goal.data_ptr(), self._origin.data_ptr(), runs, self._lane.stream)

    def _one_by_one(
        self,
        calls: driver.Calls,
        sources: Sequence[int],
        targets: Sequence[int],
        lengths: Sequence[int] | None,
    ) -> None:
        nbytes, handle = self._nbytes, self._lane.handle
        for k, at in enumerate(sources):
            size = nbytes if lengths is None else nbytes * lengths[k]
            status = calls.queue(self._ends[targets[k]], self._begins[at], size, handle)
            if status:
                driver.refuse(status, f"copy of {size} bytes")

    def _together(
        self,
        calls: driver.Calls,
        sources: Sequence[int],
        targets: Sequence[int],
        lengths: Sequence[int] | None,
    ) -> None:
        together = calls.copy_batch
        if together is None:
            self._one_by_one(calls, sources, targets, lengths)
            return
        count, nbytes = len(sources), self._nbytes
        begins, ends = self._begins, self._ends
        words = [ends[to] for to in targets]
        words += [begins[at] for at in sources]
        words += [nbytes] * count if lengths is None else [nbytes * n for n in lengths]
        kept = array("Q", words)
        at, _ = kept.buffer_info()
        status = together(at, at + 8 * count, at + 16 * count, count, self._lane.handle)
        if status:
            driver.refuse(status, f"copy of {count} runs")


LISTED = 1 << 12
"""Pieces whose addresses are kept: looking one up takes a quarter of what reckoning it takes."""


def addresses(flat: torch.Tensor, nbytes: int) -> Sequence[int]:
    """The address of every piece of ``nbytes``."""
    begin, whole = flat.data_ptr(), flat.numel() * flat.element_size()
    every = range(begin, begin + whole, nbytes)
    return list(every) if len(every) <= LISTED else every
