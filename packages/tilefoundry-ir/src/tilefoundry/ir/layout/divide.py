"""Division of a layout by a tiler: the tile and the rest, as modes of their own."""

from __future__ import annotations

from collections.abc import Sequence

from .complement import complement
from .compose import composition
from .layout import Layout, concatenate

Tiler = Layout | int | Sequence
"""A layout over the linear index, an extent (dense), or one of these per mode."""


def logical_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``((tile), (rest))`` for one tiler; for a sequence the division of each mode, modes kept in place.

    Mode 0 of a division walks one tile, mode 1 walks the tiles; together they reach what ``layout`` reaches.

    Raises:
        ValueError: the tile's span does not divide the layout's size, or a sequence is longer than its rank.
        CompositionError: a tile is no layout over the modes of ``layout``.
    """
    if isinstance(tiler, (tuple, list)):
        divided = [logical_divide(m, t) for m, t in _paired("logical_divide", layout, tiler)]
        return concatenate(*divided, *layout.modes()[len(tiler) :])
    tile = tiler if isinstance(tiler, Layout) else Layout(tiler)
    rest = complement(tile, layout.size())
    if tile.size() * rest.size() != layout.size() and all(d for s, d in tile.flat_modes() if s > 1):
        raise ValueError(
            f"logical_divide: tiles {tile} do not fill the {layout.size()} coordinates of {layout} exactly; "
            "pad the layout to a multiple of the tile"
        )
    return composition(layout, concatenate(tile, rest))


def zipped_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``logical_divide`` with all tile modes gathered in mode 0 and all rests in mode 1."""
    if not isinstance(tiler, (tuple, list)):
        return logical_divide(layout, tiler)
    pairs = [logical_divide(m, t) for m, t in _paired("zipped_divide", layout, tiler)]
    rest = [p[1] for p in pairs] + list(layout.modes()[len(tiler) :])
    return concatenate(concatenate(*(p[0] for p in pairs)), concatenate(*rest))


def tiled_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``zipped_divide`` with the rests as modes of their own: ``((tile), rest, rest, ...)``."""
    tile, rest = zipped_divide(layout, tiler)
    return concatenate(tile, *rest)


def flat_divide(layout: Layout, tiler: Tiler) -> Layout:
    """``zipped_divide`` with tiles and rests as modes of their own: ``(tile, ..., rest, ...)``."""
    tile, rest = zipped_divide(layout, tiler)
    return concatenate(*tile, *rest)


def _paired(verb: str, layout: Layout, tilers: Sequence) -> list[tuple[Layout, Tiler]]:
    if len(tilers) > layout.rank:
        raise ValueError(f"{verb}: {len(tilers)} tilers for {layout}, which has {layout.rank} modes")
    return list(zip(layout.modes(), tilers, strict=False))
