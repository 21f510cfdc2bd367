"""Writing tiles in place: the carrier's own update and single values. Not differentiable.

The tiles are covered like by a caller's promotion, so that nothing else may need them meanwhile; they are brought
onto primary, written there, and committed as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...movement.completion import Completion
from .acquire import acquire
from .core import Core
from .request import Request
from .requests import check_capacity, submit
from .slots import Slot


def write_tiles(
    core: Core,
    codes: Sequence[int],
    verb: str,
    write: Callable[[list[tuple[int, Slot]]], None],
    *,
    blank: bool,
    finish: Callable[[], Any],
    abandon: Callable[[], None] = lambda: None,
) -> Completion[Any]:
    """Have ``write`` fill the tiles' slots on primary and mark them valid and dirty, all or none.

    ``blank`` says that every slot is overwritten whole, so that nothing needs to be loaded. ``finish`` gives the
    result and runs once, after the commit.

    Raises:
        ValueError: more tiles than primary has places.
        RuntimeError: a request needs a tile, or a tile has no value and is not blank.
    """
    check_capacity(core, codes, verb)
    records = [core.table.peek(c) for c in codes]
    request = Request(
        core,
        verb,
        independent=True,
        atomic=True,
        mark=lambda: _mark(core, codes),
        finish=finish,
        abandon=abandon,
    )
    with core.lock:
        if core.released:
            raise RuntimeError(f"{verb}: this {core.name} was released meanwhile")
        records = [core.table[c] for c in codes]
        core.table.enter_pins()
        # A policy's eviction that is writing a tile back is let pass; it takes what is written to the tile later on.
        passing = [r.transit for r in records if r.transit is not None and r.transit.passive]
        for record in records:
            if record.needed() or record.claim or (record.transit and record.transit not in passing):
                raise RuntimeError(
                    f"{verb}: tile {core.geometry.coordinate(record.code)} is needed by an incomplete "
                    f"{record.holders()[0]}; wait() for its handle, leave the block of a hold, or call wait_idle()"
                )
            if not blank and not record.valid:
                raise RuntimeError(
                    f"{verb}: tile {core.geometry.coordinate(record.code)} has no value yet; replace it as a whole"
                )
        request.cover(core.table, records)
        core.admit(request)
    found: list[tuple[int, Slot]] = []
    prepared = core.mover.prepare()

    def use(ready: list[tuple[int, Slot]], _: object) -> None:
        with request._guard:
            found.extend(ready)
            complete = len(found) == len(codes)
        if complete:
            request.begin()
            request.submitted = True
            try:
                core.mover.gather(lambda: write(found), prepared, request.end, request.completion)
            except BaseException as error:
                request.end(error)

    def bring() -> None:
        acquire(core, request, codes, set(codes), use, blank=blank)
        core.mover.seal(prepared)

    def work() -> None:
        if not passing:
            bring()
            return
        request.begin()
        request.submitted = True
        request.follow([eviction.passed for eviction in passing], lambda error: request.guarded(bring))

    submit(request, work)
    return request.completion


def _mark(core: Core, codes: Sequence[int]) -> None:
    for code in codes:
        record = core.table[code]
        record.valid = record.dirty = True
        if record.secondary is not None:
            core.give_secondary(record.secondary)
            record.secondary = None
        core.table.touch(record)
