"""Strips: tiles that lie next to each other on both tiers, and so move as one."""

from __future__ import annotations

from collections.abc import Sequence

from ...movement.transfer import Run

Strips = tuple[Sequence[int], Sequence[int], "Sequence[int] | None"]
"""Where strips begin in the source, ascending, and in the target, and of how many tiles each is (None: of one)."""


def strips(sources: Sequence[int], targets: Sequence[int]) -> Strips:
    """Distinct places ``sources`` that move to ``targets``, one to one, neighbours joined."""
    # Mostly they ascend, and no two are next to each other.
    following = -1
    for at in sources:
        if at <= following:
            runs = joined(sorted((one, to, 1) for one, to in zip(sources, targets, strict=True)))
            begins, goals, lengths = zip(*runs, strict=True)
            return begins, goals, lengths
        following = at + 1
    return sources, targets, None


def joined(spans: list[tuple[int, int, int]]) -> list[Run]:
    """``(source, target, length)`` in any unit, in order of source, as runs; neighbours on both sides become one."""
    # In half the time that calling the class takes.
    make = tuple.__new__
    runs: list[Run] = []
    begin, goal, length = spans[0]
    for source_at, target_at, nbytes in spans[1:]:
        if source_at == begin + length and target_at == goal + length:
            length += nbytes
        else:
            runs.append(make(Run, (begin, goal, length)))
            begin, goal, length = source_at, target_at, nbytes
    runs.append(make(Run, (begin, goal, length)))
    return runs


def runs_of(moved: Strips, size: int) -> list[Run]:
    """The same in bytes, for tiles of ``size``."""
    sources, targets, lengths = moved
    if lengths is None:
        lengths = [1] * len(sources)
    return [Run(at * size, to * size, n * size) for at, to, n in zip(sources, targets, lengths, strict=True)]
