"""Copies to a device that somebody waits for, from the call that wants them: one call of the driver and one event.

What lies between that call and the copy is Python on the caller's thread, so nothing is made here that only the end of
the copy needs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import seam
from . import driver
from .captures import leave_captures, pass_captures
from .completion import Completion
from .cuda_lanes import Lane
from .transfer import Run


def carry(
    source: Any,
    target: Any,
    runs: Sequence[Run],
    on: Lane,
    ended: Callable[[BaseException | None], None],
    waited: Completion[Any],
) -> None:
    """Queue ``runs`` of page-locked ``source`` on the lane, into ``target`` on its device, torch's current one.

    ``ended`` is called once they are in place, or with what went wrong; a thread that waits for ``waited`` sees to it.
    What is raised means that nothing is under way.
    """
    seam.enter("submit")
    seam.enter_each("copy", len(runs))
    origin, goal = source._flat, target._flat
    driver.bound(on.device)
    before = pass_captures()
    try:
        stream = on.clear()
        try:
            driver.copy_runs(goal.data_ptr(), origin.data_ptr(), runs, stream)
            event = on.marks.take()
        except BaseException:
            # Some may be queued already; their memory may be given back afterwards.
            stream.synchronize()
            raise
    finally:
        leave_captures(before)

    def passed(error: BaseException | None, keep: object = (origin, goal)) -> None:
        ended(error)
        on.marks.give(event)

    # Waking the reaper takes as long as a copy: it looks by itself in a while, and who waits sees to it.
    waited.assist(on.reaper.watch(event, passed, not waited.urgent))
