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
            return _joined(sorted(zip(sources, targets, strict=True)))
        following = at + 1
    return sources, targets, None


def _joined(pairs: Sequence[tuple[int, int]]) -> Strips:
    first, goal = begin, into = pairs[0]
    begins, goals, lengths = [begin], [into], []
    for at, to in pairs[1:]:
        first, goal = first + 1, goal + 1
        if at != first or to != goal:
            lengths.append(first - begin)
            begins.append(at)
            goals.append(to)
            first, goal = begin, _ = at, to
    lengths.append(first + 1 - begin)
    return begins, goals, lengths


def runs_of(moved: Strips, size: int) -> list[Run]:
    """The same in bytes, for tiles of ``size``."""
    sources, targets, lengths = moved
    if lengths is None:
        lengths = [1] * len(sources)
    return [Run(at * size, to * size, n * size) for at, to, n in zip(sources, targets, lengths, strict=True)]
