"""Acquisition: make tiles available to a request, now or as soon as other batches have moved on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ...movement.completion import Completion
from .batch import Batch
from .reserve import Reserved, reserve
from .slots import Slot

if TYPE_CHECKING:
    from .core import Core
    from .request import Request

Use = Callable[[list[tuple[int, Slot]], list[tuple[int, "Slot | None"]]], None]
"""Called with tiles on primary and tiles to read directly; begins and ends its own parts on the request."""


def acquire(
    core: Core,
    request: Request,
    codes: Sequence[int],
    must: Collection[int],
    use: Use,
    *,
    cache: bool = True,
    blank: bool = False,
) -> None:
    """Submit what is missing of ``codes`` and hand every tile to ``use`` once, in pieces, as it becomes available.

    The request has pinned the codes. What is raised means that this call submitted nothing.
    """
    found = _reserve_grown(core, request, codes, must, cache)
    batch = found.batch
    if batch is not None:
        batch.blank = blank
        request.begin()
        try:
            batch.start()
        except BaseException:
            # The part that was begun never ran; the caller undoes the batch.
            with request._guard:
                request._left -= 1
            raise
        request.begin()
        follow = batch.loaded if request.atomic else batch.arrived
        follow.add_callback(lambda: request.guarded(lambda: _arrived(batch, follow, use)))
    if found.ready or found.direct:
        use(found.ready, found.direct)
    for code, other in found.blocked:
        _wait_behind(core, request, code, other, must, use, cache, blank)


def _reserve_grown(
    core: Core, request: Request, codes: Sequence[int], must: Collection[int], cache: bool
) -> Reserved:
    while True:
        with core.lock:
            found = reserve(core, request, codes, must, cache)
        if found.grow is None:
            return found
        core.grow(*found.grow)


def _arrived(batch: Batch, follow: Completion[None], use: Use) -> None:
    if follow.error is None:
        use([(load.record.code, load.target) for load in batch.loads], [])


def _wait_behind(
    core: Core,
    request: Request,
    code: int,
    other: Batch,
    must: Collection[int],
    use: Use,
    cache: bool,
    blank: bool,
) -> None:
    request.begin()
    request.submitted = True

    def moved_on() -> None:
        if other.arrived.error is not None and other.brings(code) and not other.request.independent:
            request.end(other.arrived.error)
        else:
            request.guarded(lambda: acquire(core, request, [code], must, use, cache=cache, blank=blank))

    other.arrived.add_callback(moved_on)
