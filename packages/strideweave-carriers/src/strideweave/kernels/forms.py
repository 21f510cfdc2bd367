"""What a permuted copy comes down to: rows of one side that are columns of the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Form(NamedTuple):
    """``along`` elements x lie one after another on the *wide* side, ``inner * groups`` elements j on the *deep* side.

    Element (j, x) is at ``j + x * step`` on the deep side, and at ``(j % inner) * near + (j // inner) * far + x`` on
    the wide side. ``deep_source`` says that the deep side is the source.
    """

    along: int
    inner: int
    groups: int
    step: int
    near: int
    far: int
    deep_source: bool


def form_of(shape: Sequence[int], target: Sequence[int], source: Sequence[int]) -> Form | None:
    """The form of a copy with these strides; None where it has another one. Of two, the one with longer runs."""
    axes = _joined([a for a in zip(shape, target, source, strict=True) if a[0] > 1])
    found = [
        _as_deep([(n, s, t) if deep_source else (n, t, s) for n, t, s in axes], deep_source)
        for deep_source in (True, False)
    ]
    return max((form for form in found if form is not None), key=lambda form: form.along, default=None)


def _joined(axes: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """Axes that continue one another on both sides become one; the smallest target stride comes first."""
    joined: list[tuple[int, int, int]] = []
    for n, t, s in sorted(axes, key=lambda axis: axis[1]):
        if joined and (t, s) == (joined[-1][0] * joined[-1][1], joined[-1][0] * joined[-1][2]):
            before = joined.pop()
            joined.append((before[0] * n, before[1], before[2]))
        else:
            joined.append((n, t, s))
    return joined


def _as_deep(axes: list[tuple[int, int, int]], deep_source: bool) -> Form | None:
    """Axes as (extent, stride on the deep side, stride on the wide side)."""
    if len(axes) not in (2, 3):
        return None
    near = [a for a in axes if a[1] == 1]
    wide = [a for a in axes if a[2] == 1]
    if len(near) != 1 or len(wide) != 1 or near[0] is wide[0]:
        return None
    (inner, _, near_stride), (along, step, _) = near[0], wide[0]
    rest = [a for a in axes if a is not near[0] and a is not wide[0]]
    if not rest:
        return Form(along, inner, 1, step, near_stride, 0, deep_source)
    groups, deep_stride, far = rest[0]
    return Form(along, inner, groups, step, near_stride, far, deep_source) if deep_stride == inner else None
