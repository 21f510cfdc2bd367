"""Injectivity of a layout, decided from its modes and not by walking its domain."""

from __future__ import annotations

from math import gcd

from .layout import Layout

Mode = tuple[int, int]
"""A stride and its extent, in this order so that sorting goes by stride."""


def is_injective(layout: Layout) -> bool:
    """Whether no two coordinates share an index.

    Two coordinates collide exactly when ``sum(x[k] * d[k]) == 0`` for some x that is not all zero and has
    ``|x[k]| < extent[k]``. The search fixes x from the largest stride down, keeps only the partial sums
    that the smaller strides can still cancel, and solves the last two modes in closed form. For strides that
    grow past what the smaller modes reach (all ordinary layouts) that is one sum per mode at any extent.
    """
    modes = sorted((d, s) for s, d in layout.flat_modes() if s > 1)
    if any(d == 0 for d, _ in modes) or layout.size() > layout.cosize():
        return False
    if len(modes) < 2:
        return True
    sums = {0}
    for k in range(len(modes) - 1, 1, -1):
        reach = sum(d * (s - 1) for d, s in modes[:k])
        step = gcd(*(d for d, _ in modes[:k]))
        reached = _sums_after(sums, modes[k], reach, step)
        if reached is None:
            return False
        sums = reached
    return not any(_two_cancel(p, modes[0], modes[1]) for p in sums)


def _sums_after(sums: set[int], mode: Mode, reach: int, step: int) -> set[int] | None:
    """The sizes of partial sums after ``mode`` that the rest may cancel; None when one cancels here."""
    stride, extent = mode
    out = {0}
    for p in sums:
        low = max(1 - extent, -((reach + p) // stride))
        high = min(extent - 1, (reach - p) // stride)
        for x in range(low, high + 1):
            total = p + x * stride
            if total == 0 and p:
                return None
            if total % step == 0:
                # x and -x solve the same equation, so the sign of the whole sum does not matter.
                out.add(abs(total))
    return out


def _two_cancel(p: int, small: Mode, large: Mode) -> bool:
    """Whether ``p + y * small + x * large == 0`` has a solution in range other than all zero."""
    (d0, s0), (d1, s1) = small, large
    common = gcd(d0, d1)
    period = d0 // common
    if p == 0:
        return period < s1 and d1 // common < s0
    if p % common:
        return False
    room = d0 * (s0 - 1)
    low = max(1 - s1, -((p + room) // d1))
    high = min(s1 - 1, (room - p) // d1)
    residue = -(p // common) * pow(d1 // common, -1, period) % period
    return low + (residue - low) % period <= high
