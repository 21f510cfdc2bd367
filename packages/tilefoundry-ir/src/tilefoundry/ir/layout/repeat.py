"""Products of layouts: a layout repeated as another one says."""

from __future__ import annotations

from collections.abc import Sequence

from .complement import complement
from .compose import composition
from .divide import Tiler
from .layout import Layout, concatenate


def logical_product(layout: Layout, tiler: Tiler) -> Layout:
    """``(layout, repeats)``: mode 0 is ``layout``, mode 1 places copies of it in the order of ``tiler``.

    For a sequence each mode is repeated on its own.

    Raises:
        ValueError: ``layout`` has no complement, or a sequence is longer than its rank.
    """
    if isinstance(tiler, (tuple, list)):
        repeated = [logical_product(m, t) for m, t in _paired("logical_product", layout, tiler)]
        return concatenate(*repeated, *layout.modes()[len(tiler) :])
    order = tiler if isinstance(tiler, Layout) else Layout(tiler)
    free = complement(layout, layout.size() * order.cosize())
    return concatenate(layout, composition(free, order))


def zipped_product(layout: Layout, tiler: Tiler) -> Layout:
    """``logical_product`` with all blocks gathered in mode 0 and all repeats in mode 1."""
    if not isinstance(tiler, (tuple, list)):
        return logical_product(layout, tiler)
    pairs = [logical_product(m, t) for m, t in _paired("zipped_product", layout, tiler)]
    rest = [p[1] for p in pairs] + list(layout.modes()[len(tiler) :])
    return concatenate(concatenate(*(p[0] for p in pairs)), concatenate(*rest))


def tiled_product(layout: Layout, tiler: Tiler) -> Layout:
    """``zipped_product`` with the repeats as modes of their own."""
    block, repeats = zipped_product(layout, tiler)
    return concatenate(block, *repeats)


def flat_product(layout: Layout, tiler: Tiler) -> Layout:
    """``zipped_product`` with blocks and repeats as modes of their own."""
    block, repeats = zipped_product(layout, tiler)
    return concatenate(*block, *repeats)


def blocked_product(layout: Layout, tiler: Layout) -> Layout:
    """Each mode is ``(within a block, which block)``: blocks stay contiguous pieces of the whole."""
    return _interleaved(layout, tiler, block_first=True)


def raked_product(layout: Layout, tiler: Layout) -> Layout:
    """Each mode is ``(which block, within a block)``: blocks are spread over the whole."""
    return _interleaved(layout, tiler, block_first=False)


def _interleaved(layout: Layout, tiler: Layout, block_first: bool) -> Layout:
    if layout.rank != tiler.rank:
        raise ValueError(f"product by mode: {layout} and {tiler} must have equally many modes")
    free = complement(layout, layout.size() * tiler.cosize())
    repeats = composition(free, tiler)
    pairs = zip(layout.modes(), repeats.modes(), strict=True)
    return concatenate(*(concatenate(*((b, r) if block_first else (r, b))) for b, r in pairs))


def _paired(verb: str, layout: Layout, tilers: Sequence) -> list[tuple[Layout, Tiler]]:
    if len(tilers) > layout.rank:
        raise ValueError(f"{verb}: {len(tilers)} tilers for {layout}, which has {layout.rank} modes")
    return list(zip(layout.modes(), tilers, strict=False))
