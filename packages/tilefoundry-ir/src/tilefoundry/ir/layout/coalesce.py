"""Coalesce: the same function of a linear index with as few modes as possible."""

from __future__ import annotations

from .inttuple import IntTuple
from .layout import Layout, concatenate, from_flat_modes


def coalesced_modes(layout: Layout) -> list[tuple[int, int]]:
    """The ``(extent, stride)`` pairs of ``coalesce(layout)``; none for a layout of size 1."""
    out: list[tuple[int, int]] = []
    for extent, stride in layout.flat_modes():
        if extent == 1:
            continue
        if out and stride == out[-1][0] * out[-1][1]:
            out[-1] = (out[-1][0] * extent, out[-1][1])
        else:
            out.append((extent, stride))
    return out


def coalesce(layout: Layout, profile: IntTuple | None = None) -> Layout:
    """A flat layout with the same index for every ``i in range(size)``.

    With ``profile`` (a tuple) each top-level mode is coalesced on its own, recursively where ``profile`` has
    a tuple, and modes are never merged with one another.

    Raises:
        ValueError: ``profile`` is a tuple of another length than the layout's rank.
    """
    if not isinstance(profile, tuple):
        return from_flat_modes(coalesced_modes(layout))
    if len(profile) != layout.rank:
        raise ValueError(
            f"coalesce: profile {profile} has {len(profile)} entries, {layout} has {layout.rank} modes"
        )
    return concatenate(*map(coalesce, layout.modes(), profile))
