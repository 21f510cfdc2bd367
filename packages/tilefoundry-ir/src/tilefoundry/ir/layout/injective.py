"""Injectivity of a layout, decided from its modes and not by walking its domain."""

from __future__ import annotations

from math import gcd

from .layout import Layout

Modes = tuple[tuple[int, int], ...]


def is_injective(layout: Layout) -> bool:
    """Whether no two coordinates share an index.

    Two coordinates collide exactly when ``sum(x[k] * d[k]) == 0`` for some x that is not all zero and has
    ``|x[k]| < extent[k]``. The search fixes x from the largest stride down and keeps only the partial sums
    that the smaller strides can still cancel; for strides that grow past what the smaller modes reach (all
    ordinary layouts) that is one value per mode, whatever the extents.
    """
    modes = tuple(sorted((d, s) for s, d in layout.flat_modes() if s > 1))
    if any(d == 0 for d, _ in modes):
        return False
    if layout.size() > layout.cosize():
        return False
    return not _collides(modes)


def _collides(modes: Modes) -> bool:
    reach = [0]
    divisor = [0]
    for stride, extent in modes:
        reach.append(reach[-1] + stride * (extent - 1))
        divisor.append(gcd(divisor[-1], stride))
    pending = {0}
    for k in range(len(modes) - 1, 0, -1):
        # x and -x collide alike, so the first nonzero x[k] may be taken positive.
        if k == 1 and _cancels_pairwise(modes[0], modes[1]):
            return True
        pending = _next_sums(pending, modes[k], reach[k], divisor[k])
        if 0 not in pending:
            pending.add(0)
    stride, extent = modes[0] if modes else (1, 1)
    return any(p and p % stride == 0 and abs(p) // stride < extent for p in pending)


def _next_sums(pending: set[int], mode: tuple[int, int], reach: int, divisor: int) -> set[int]:
    stride, extent = mode
    out: set[int] = set()
    for p in pending:
        low = max(-(extent - 1) if p else 0, -((p + reach) // stride))
        high = min(extent - 1, (reach - p) // stride)
        out.update(q for x in range(low, high + 1) if (q := p + x * stride) % divisor == 0)
    return out
