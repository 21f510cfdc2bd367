"""Complement: the layout that reaches the indices which another one leaves out."""

from __future__ import annotations

from .coalesce import coalesced_modes
from .inttuple import as_int
from .layout import Layout, from_flat_modes


def complement(layout: Layout, cotarget: int | None = None) -> Layout:
    """The ascending layout R for which ``(layout, R)`` reaches every index below ``cotarget``.

    Images of ``layout`` and R meet in 0 alone, and each sum of one index of either is reached once. Where
    ``cotarget`` (default: ``layout.cosize()``) is no multiple of what the modes span, R covers the next
    multiple. Modes of stride 0 are left out of account.

    Raises:
        ValueError: the modes overlap or their strides do not divide one another, so that no R exists;
            ``cotarget`` below 1.
    """
    target = layout.cosize() if cotarget is None else as_int(cotarget, "complement cotarget")
    if target < 1:
        raise ValueError(f"complement: cotarget is {target}, expected at least 1")
    ordered = sorted((d, s) for s, d in layout.flat_modes() if s > 1 and d > 0)
    out, span = [], 1
    for stride, extent in ordered:
        if stride % span:
            raise ValueError(
                f"complement: {layout} has none: stride {stride} is no multiple of the {span} indices "
                "that its smaller modes span"
            )
        out.append((stride // span, span))
        span = stride * extent
    out.append((-(-target // span), span))
    return from_flat_modes(coalesced_modes(Layout(tuple(s for s, _ in out), tuple(d for _, d in out))))
