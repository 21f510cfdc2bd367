"""Promotion and eviction at the caller's request."""

from __future__ import annotations

from collections.abc import Sequence

from ...movement.completion import Completion, settled
from ...movement.interrupts import interrupts_deferred
from .acquire import acquire
from .core import Core
from .eviction import Eviction
from .request import Request
from .requests import check_capacity, submit


def promote(parts: Sequence[tuple[Core, tuple[int, ...]]], verb: str = "promote") -> Completion[None]:
    """Bring tiles of one or several cores (which share a lock) onto primary as one transaction.

    Raises:
        ValueError: more tiles than a primary has places.
        RuntimeError: a tile is covered by another promotion or eviction, has no value, or finds no place.
    """
    for core, codes in parts:
        check_capacity(core, codes, verb)
    request = Request(parts[0][0], verb, independent=True, atomic=True)
    request.cores = tuple(core for core, _ in parts)

    def work() -> None:
        for core, codes in parts:
            acquire(core, request, codes, set(codes), lambda ready, direct: None)

    with interrupts_deferred():
        with request.core.lock:
            for core, codes in parts:
                _check(core, codes, verb)
            for core, codes in parts:
                request.cover(core.table, core.table.many(codes))
                core.admit(request)
        submit(request, work)
    return request.completion


def _check(core: Core, codes: Sequence[int], verb: str) -> None:
    if core.released:
        raise RuntimeError(f"{verb}: this {core.name} was released")
    for record in map(core.table.peek, codes):
        if record.claim is not None:
            raise RuntimeError(
                f"{verb}: tile {core.geometry.coordinate(record.code)} is covered by an incomplete "
                f"{record.claim.what}; wait() for its handle first, or call wait_idle()"
            )
        if verb != "evict" and not record.valid:
            raise RuntimeError(
                f"{verb}: tile {core.geometry.coordinate(record.code)} has no value yet; scatter or update it first"
            )


def evict(parts: Sequence[tuple[Core, tuple[int, ...]]], verb: str = "evict") -> list[Completion[None]]:
    """Take tiles of one or several cores (which share a lock) off primary, dirty ones written back first, once nobody
    needs them; each core's set moves as one. All are checked before any is begun.

    Raises:
        RuntimeError: a tile is covered by another promotion or eviction, or is dirty over a read-only secondary.
    """
    evictions = [Eviction(core, verb, codes, False) for core, codes in parts]
    with interrupts_deferred():
        with parts[0][0].lock:
            for core, codes in parts:
                _check(core, codes, verb)
                _check_storable(core, codes, verb)
            begun = [e for e in evictions if _concerns(e.core, e.codes)]
            for eviction in begun:
                eviction.claim()
        for eviction in begun:
            eviction.try_start()
    return [e.completion if e in begun else settled(None) for e in evictions]


def _check_storable(core: Core, codes: Sequence[int], verb: str) -> None:
    dirty = [c for c in codes if core.table.peek(c).dirty]
    if dirty and not core.can_store():
        raise RuntimeError(
            f"{verb}: tile {core.geometry.coordinate(dirty[0])} is dirty and the secondary tier is read-only; "
            "construct the carrier with overlay=, a writable scratch tier"
        )


def _concerns(core: Core, codes: Sequence[int]) -> bool:
    """Whether any of the tiles is on primary or on its way there."""
    return any(core.table.peek(c).primary is not None or core.table.peek(c).transit for c in codes)
