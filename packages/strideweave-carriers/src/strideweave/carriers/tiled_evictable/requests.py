"""Beginning requests: conflicts, policy, pins. Every data request and every transition passes here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from .core import Core
from .plan import PURPOSES, Purpose, ResidencyPlan, ResidencyPolicy
from .request import Request
from .table import TileRecord
from .tile_set import TileSet, of_codes

if TYPE_CHECKING:
    from collections.abc import Iterator

_asking = threading.local()


def refuse_within_policy(core: Core, verb: str) -> None:
    """Raise RuntimeError when this thread is inside the policy of the same carrier."""
    if core in getattr(_asking, "cores", ()):
        raise RuntimeError(
            f"{verb}: called from inside this carrier's own residency policy; return a ResidencyPlan instead"
        )


def check_conflicts(core: Core, codes: Iterable[int], verb: str) -> None:
    """Raise RuntimeError where a tile is covered by a caller's promotion or eviction that has not ended."""
    if core.active or core.deferred:
        with core.lock:
            _check(core, codes, verb)


def _check(core: Core, codes: Iterable[int], verb: str) -> None:
    for code in codes:
        claim = core.table.peek(code).claim
        if claim is not None:
            raise RuntimeError(
                f"{verb}: tile {core.geometry.coordinate(code)} is covered by an incomplete {claim.what}; "
                "wait() for its handle first, or call wait_idle()"
            )


def check_readable(core: Core, codes: Iterable[int], verb: str) -> None:
    """Raise RuntimeError where a tile has no value."""
    peek = core.table.peek
    for code in codes:
        if not peek(code).valid:
            _refuse_invalid(core, code, verb)


def _refuse_invalid(core: Core, code: int, verb: str) -> None:
    raise RuntimeError(
        f"{verb}: tile {core.geometry.coordinate(code)} has no value yet; scatter or update it first"
    )


def ask_policy(
    core: Core, policy: ResidencyPolicy | None, codes: tuple[int, ...], purpose: Purpose
) -> ResidencyPlan | None:
    """The policy's plan for a request that needs ``codes``, checked; None without a policy.

    Raises:
        TypeError: the policy returned something else.
        ValueError: a tile outside the grid, or more tiles to keep on primary than it has places.
    """
    if policy is None:
        return None
    assert purpose in PURPOSES
    cores = getattr(_asking, "cores", ())
    _asking.cores = (*cores, core)
    try:
        plan = policy.plan(of_codes(set(codes), core.geometry), purpose)
    finally:
        _asking.cores = cores
    if not isinstance(plan, ResidencyPlan):
        raise TypeError(
            f"{purpose}: the policy's plan() returned {type(plan).__name__}, expected a ResidencyPlan"
        )
    for name in ("promote", "retain", "evict"):
        getattr(plan, name).bind(core.geometry, f"{purpose}: the policy's {name}")
    check_capacity(
        core, {*plan.promote.coordinates, *plan.retain.coordinates}, f"{purpose}: the policy's plan"
    )
    return plan


def check_capacity(core: Core, tiles: Collection[object], verb: str) -> None:
    """Raise ValueError where ``tiles`` cannot all be on primary at once."""
    limit, budget = core.primary.limit, core.budget
    if budget is not None and len(tiles) * core.tile_bytes > budget.nbytes:
        raise ValueError(
            f"{verb}: {len(tiles)} tiles of {core.tile_bytes} bytes on primary exceed the budget of {budget.nbytes}; "
            "ask for fewer at a time"
        )
    if len(tiles) > limit:
        raise ValueError(
            f"{verb}: {len(tiles)} tiles on primary exceed primary_capacity {limit}; ask for fewer at a time"
        )


def enter(
    core: Core,
    request: Request,
    codes: tuple[int, ...],
    plan: ResidencyPlan | None,
    verb: str,
    *,
    readable: bool = True,
) -> tuple[int, ...]:
    """Pin what ``request`` needs and count it as begun; the codes that the plan wants on primary.

    ``readable`` says that every tile must have a value.

    Raises:
        RuntimeError: a conflict, a tile without a value, or a released carrier.
    """
    promote = plan.promote.bind(core.geometry) if plan is not None else ()
    retain = plan.retain.bind(core.geometry) if plan is not None else ()
    with core.lock:
        if core.released:
            raise RuntimeError(f"{verb}: this {core.name} was released meanwhile")
        records, hits = [], 0
        for code in codes:
            record = core.table[code]
            if record.claim is not None:
                _check(core, (code,), verb)
            if readable and not record.valid:
                _refuse_invalid(core, code, verb)
            hits += record.primary is not None
            records.append(record)
        for code in promote:
            if not core.table[code].valid:
                _refuse_invalid(core, code, verb)
        request.pin(records)
        if promote or retain:
            request.pin(core.table[c] for c in promote)
            request.pin(r for r in _resident(core, retain))
        core.admit(request)
    core.stats.required(hits, len(codes) - hits, codes)
    if plan is not None:
        request.retained = frozenset(retain)
        request.trailing = plan.evict.bind(core.geometry)
    return promote


def _resident(core: Core, codes: Iterable[int]) -> Iterator[TileRecord]:
    for code in codes:
        record = core.table[code]
        if record.primary is not None:
            yield record


def submit(request: Request, work: Callable[[], None]) -> None:
    """Run ``work``, which submits the parts of a request that has entered, and end the request's first part.

    A failure before anything was submitted is raised and undone; one after that comes from the handle. To be called,
    like ``enter``, with interrupts put off: half a submission cannot be told from none.
    """
    try:
        work()
    except BaseException as error:
        if request.submitted:
            request.end(error)
            return
        request.withdraw(error)
        raise
    request.end()


def close_at_end(request: Request) -> None:
    """Drop the pins that a request keeps, as soon as it has ended; one that failed has retired by itself."""
    completion = request.completion
    completion.add_callback(lambda: request.close() if completion.error is None else None)


def codes_of(tiles: TileSet, core: Core, verb: str) -> tuple[int, ...]:
    """The tiles' codes; ValueError outside the grid."""
    return tiles.bind(core.geometry, verb)
