"""The Layout algebra as functions of strideweave Layouts; see ``tilefoundry.ir.layout`` for what each does."""

from __future__ import annotations

from typing import Any

from .layout import Layout


def coalesce(layout: Layout) -> Layout:
    """The same function of a linear index with as few modes as possible."""
    return layout.coalesce()


def composition(outer: Layout, inner: Any) -> Layout:
    """The Layout C with ``C(i) == outer(inner(i))``; refused where there is none."""
    return outer.composition(inner)


def complement(layout: Layout, cotarget: int | None = None) -> Layout:
    """The Layout of the slots below ``cotarget`` that ``layout`` leaves out."""
    return layout.complement(cotarget)


def logical_divide(layout: Layout, tiler: Any) -> Layout:
    """``((tile), (rest))``, by mode for a sequence of tilers."""
    return layout.logical_divide(tiler)


def zipped_divide(layout: Layout, tiler: Any) -> Layout:
    """All tile modes in mode 0, all rests in mode 1."""
    return layout.zipped_divide(tiler)


def tiled_divide(layout: Layout, tiler: Any) -> Layout:
    """All tile modes in mode 0, then the rests."""
    return layout.tiled_divide(tiler)


def flat_divide(layout: Layout, tiler: Any) -> Layout:
    """The tile modes, then the rests."""
    return layout.flat_divide(tiler)


def logical_product(layout: Layout, tiler: Any) -> Layout:
    """``layout`` repeated as ``tiler`` says."""
    return layout.logical_product(tiler)


def blocked_product(layout: Layout, tiler: Layout) -> Layout:
    """The product by mode with whole blocks next to one another."""
    return layout.blocked_product(tiler)


def raked_product(layout: Layout, tiler: Layout) -> Layout:
    """The product by mode with blocks spread over the whole."""
    return layout.raked_product(tiler)
