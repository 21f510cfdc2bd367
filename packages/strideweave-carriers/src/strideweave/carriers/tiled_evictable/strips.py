"""Strips: tiles that lie next to each other on both tiers, and so move as one."""

from __future__ import annotations

from collections.abc import Sequence
from operator import sub
from typing import NamedTuple

from ...movement.transfer import Run


class Strips(NamedTuple):
    """Where each strip begins, counted in tiles, ascending in the source, and of how many tiles it is.

    ``lengths`` is None where every strip is one tile.
    """

    sources: Sequence[int]
    targets: Sequence[int]
    lengths: Sequence[int] | None

    def runs(self, size: int) -> list[Run]:
        """The same in bytes, for tiles of ``size``."""
        lengths = [1] * len(self.sources) if self.lengths is None else self.lengths
        return [
            Run(at * size, to * size, n * size)
            for at, to, n in zip(self.sources, self.targets, lengths, strict=True)
        ]


def strips(sources: Sequence[int], targets: Sequence[int]) -> Strips:
    """Distinct places ``sources`` that move to ``targets``, one to one, neighbours joined."""
    if len(sources) == 1:
        return Strips(sources, targets, None)
    pairs = sorted(zip(sources, targets, strict=True))
    at, to = zip(*pairs, strict=True)
    # Mostly no two are next to each other, and a look for the difference costs less than going through them.
    if 1 not in map(sub, at[1:], at):
        return Strips(at, to, None)
    return _joined(pairs)


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
    return Strips(begins, goals, lengths)
