"""Inverses of layouts."""

from __future__ import annotations

from .coalesce import coalesced_modes
from .complement import complement
from .injective import is_injective
from .layout import Layout, concatenate, from_flat_modes


def right_inverse(layout: Layout) -> Layout:
    """The layout R with ``layout(R(i)) == i`` for all ``i in range(size(R))``, R as large as can be.

    R covers the indices from 0 up to the first that ``layout`` reaches by none of its dense modes.
    """
    prefix, steps = 1, []
    for extent, stride in layout.flat_modes():
        if extent > 1:
            steps.append((stride, extent, prefix))
        prefix *= extent
    out, dense = [], 1
    for stride, extent, position in sorted(steps):
        if stride > dense:
            break
        if stride == dense:
            out.append((extent, position))
            dense *= extent
    return from_flat_modes(coalesced_modes(Layout(tuple(s for s, _ in out), tuple(d for _, d in out))))


def left_inverse(layout: Layout) -> Layout:
    """The layout L with ``L(layout(i)) == i`` for all ``i in range(size(layout))``.

    Raises:
        ValueError: two coordinates share an index, or no layout is an inverse because the strides do not
            divide one another.
    """
    if not is_injective(layout):
        raise ValueError(f"left_inverse: {layout} sends two coordinates to one index")
    flat = Layout(layout.size()) if layout.size() == 1 else layout
    return right_inverse(concatenate(flat, complement(flat)))
