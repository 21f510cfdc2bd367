"""Which canonical axes make up each axis of a tensor."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.ir.types.dim import Dim, lanes

__all__ = ["axis_factors"]


def axis_factors(shape: Sequence[Dim], canonical: Sequence[Dim]) -> tuple[tuple[int, ...], ...] | None:
    """For each tensor axis the canonical axes whose extents multiply to its extent, in order.

    Both count the same elements in row-major order. None where an axis boundary of the tensor falls inside a
    canonical axis. Canonical axes of extent 1 that could go either way stay with the earlier axis, save that
    a tensor axis of extent 1 takes one where there is one. An axis that is a tile which the edge may cut is made up
    by its own extent or by all of its lanes.

    >>> axis_factors((2, 1536), (2, 4, 3, 32, 4))
    ((0,), (1, 2, 3, 4))
    """
    groups: list[tuple[int, ...]] = []
    at = 0
    for axis, extent in enumerate(shape):
        taken, at = _take(extent, canonical, at)
        if taken is None:
            return None
        if axis == len(shape) - 1:
            while at < len(canonical) and canonical[at] == 1:
                taken += (at,)
                at += 1
        groups.append(taken)
    return tuple(groups) if at == len(canonical) else None


def _take(extent: Dim, canonical: Sequence[Dim], at: int) -> tuple[tuple[int, ...] | None, int]:
    if extent == 1:
        return ((at,), at + 1) if at < len(canonical) and canonical[at] == 1 else ((), at)
    taken: tuple[int, ...] = ()
    total: Dim = 1
    whole = lanes(extent)
    while total not in (extent, whole):
        if at == len(canonical):
            return None, at
        total = total * canonical[at]
        taken += (at,)
        at += 1
    return taken, at
