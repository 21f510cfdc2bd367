"""Acquisition: make tiles available to a request, now or as soon as other batches have moved on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from ...movement.completion import Completion, when_all
from .batch import Batch
from .eviction import Eviction
from .reserve import Reserved, reserve
from .restore import Displaced, restore
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
    if found.make_room:
        _after_room(core, request, codes, must, use, cache, blank, found.make_room)
        return
    if found.leaving:
        _after_leaving(
            request, found.leaving, lambda: acquire(core, request, codes, must, use, cache=cache, blank=blank)
        )
        return
    batch = found.batch
    if batch is not None:
        batch.blank = blank
        request.begin()
        try:
            batch.start()
        except BaseException:
            # The part that was begun never ran; the caller undoes the batch.
            request.unbegin()
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
        use([(record.code, target) for record, _, target in batch.loads], [])


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
    other.request.completion.hurry()

    def moved_on() -> None:
        if other.arrived.error is not None and other.brings(code) and not other.request.independent:
            request.end(other.arrived.error)
        else:
            request.guarded(lambda: acquire(core, request, [code], must, use, cache=cache, blank=blank))

    other.arrived.add_callback(moved_on)


def _after_leaving(request: Request, evictions: Sequence[Eviction], again: Callable[[], None]) -> None:
    """Try again once what is written back has left, or stays because it is needed after all."""
    request.begin()
    request.submitted = True
    request.follow([eviction.passed for eviction in evictions], lambda error: request.guarded(again))


def _after_room(
    core: Core,
    request: Request,
    codes: Sequence[int],
    must: Collection[int],
    use: Use,
    cache: bool,
    blank: bool,
    victims: Sequence[tuple[Core, int]],
) -> None:
    """Evict tiles of carriers under the same budget, then acquire again; a victim that is needed by now stays."""
    request.begin()
    request.submitted = request.made_room = True
    displaced = request.displaced
    request.bring_back = lambda then: restore(displaced, request.what, then)
    evictions = [Eviction.for_room(owner, request.what, code) for owner, code in victims]

    def freed(error: BaseException | None) -> None:
        displaced.extend(Displaced(e.core, victim) for e in evictions for victim in e.displaced())
        if error is not None:
            request.end(error)
        else:
            request.guarded(lambda: acquire(core, request, codes, must, use, cache=cache, blank=blank))

    when_all([e.completion for e in evictions], freed)
    for eviction in evictions:
        eviction.try_start()
