"""Whether a Tensor's Layout places each logical tile on exactly the slots that the carrier gives that tile.

Decided from the Layout's leaves alone, in O(leaves log leaves), whatever the extents. The reasoning: tile
footprints are runs of T slots. A sum of arithmetic progressions fills a run exactly, without repeats, when its
leaves sorted by stride continue one another from stride 1; and a tile lies on its own run when the leaves that
select tiles have the grid's strides.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.layout import flatten

from ...layout import Layout
from .geometry import TileGeometry


@dataclass(frozen=True, slots=True)
class Leaf:
    """``extent`` coordinates of ``axis`` that lie ``stride`` slots apart."""

    axis: int
    extent: int
    stride: int


@dataclass(frozen=True, slots=True)
class Footprint:
    """How a compatible Layout orders the inside of a tile: per axis its inner leaves, fastest first."""

    inner: tuple[tuple[Leaf, ...], ...]

    def by_stride(self) -> tuple[Leaf, ...]:
        """The leaves from the largest stride to the smallest: a tile as a C-ordered array."""
        return tuple(sorted((leaf for axis in self.inner for leaf in axis), key=lambda leaf: -leaf.stride))

    def in_order(self) -> tuple[Leaf, ...]:
        """The leaves by coordinate, last axis' outermost first: the C-order of a dense compact tile."""
        return tuple(leaf for axis in self.inner[::-1] for leaf in axis[::-1])


def footprint(layout: Layout, offset: int, geometry: TileGeometry, what: str = "tensor") -> Footprint:
    """The inside of the tiles of a Tensor at ``offset`` with ``layout``.

    Raises:
        ValueError: the Tensor is not the full logical tensor, or a tile of it does not cover exactly the slots
            of the carrier's tile; the message says where.
    """
    _check_full(layout, offset, geometry, what)
    inner = []
    for axis, mode in enumerate(_modes(layout)):
        split = _split(mode, geometry.tile_shape[axis])
        if split is None:
            raise ValueError(
                f"{what}: axis {axis} of {layout} cannot be split at the tile extent {geometry.tile_shape[axis]}, "
                f"so a tile would spread over several; {_advice(geometry)}"
            )
        leaves, outer = split
        _check_outer(outer, axis, geometry, layout, what)
        inner.append(tuple(Leaf(axis, e, s) for e, s in leaves))
    found = Footprint(tuple(inner))
    _check_inner(found, geometry, layout, what)
    return found


def _advice(geometry: TileGeometry) -> str:
    return f"canonical_layout() gives {geometry.canonical_layout()}"


def _check_full(layout: Layout, offset: int, geometry: TileGeometry, what: str) -> None:
    if offset != 0:
        raise ValueError(
            f"{what}: offset {offset} shifts every tile off its slots; the full tensor has offset 0"
        )
    sizes = tuple(_size(mode) for mode in _modes(layout))
    if sizes != geometry.logical_shape:
        raise ValueError(
            f"{what}: modes of size {sizes}, expected the full logical shape {geometry.logical_shape}; "
            "select tiles with project instead of viewing a part"
        )


def _modes(layout: Layout) -> list[list[tuple[int, int]]]:
    """The leaves of each top-level mode as (extent, stride), first fastest."""
    extents, strides = layout.shape.extents, layout.stride
    if not isinstance(extents, tuple):
        extents, strides = (extents,), (strides,)
    return [list(zip(flatten(e), flatten(s), strict=True)) for e, s in zip(extents, strides, strict=True)]


def _size(mode: list[tuple[int, int]]) -> int:
    size = 1
    for extent, _ in mode:
        size *= extent
    return size


def _coalesced(mode: list[tuple[int, int]]) -> list[tuple[int, int]]:
    out: list[tuple[int, int]] = []
    for extent, stride in mode:
        if extent == 1:
            continue
        if out and stride == out[-1][0] * out[-1][1]:
            out[-1] = (out[-1][0] * extent, out[-1][1])
        else:
            out.append((extent, stride))
    return out


def _split(
    mode: list[tuple[int, int]], tile: int
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]] | None:
    """The leaves that count up to ``tile`` and those after; None where a leaf straddles the cut unevenly."""
    inner: list[tuple[int, int]] = []
    outer: list[tuple[int, int]] = []
    left = tile
    for extent, stride in _coalesced(mode):
        if left == 1:
            outer.append((extent, stride))
        elif left % extent == 0:
            inner.append((extent, stride))
            left //= extent
        elif extent % left == 0:
            inner.append((left, stride))
            outer.append((extent // left, stride * left))
            left = 1
        else:
            return None
    return inner, outer


def _check_outer(
    outer: list[tuple[int, int]], axis: int, geometry: TileGeometry, layout: Layout, what: str
) -> None:
    expected = tuple(geometry.outer_strides())[axis]
    for extent, stride in outer:
        if stride != expected:
            raise ValueError(
                f"{what}: neighbouring tiles on axis {axis} of {layout} are {stride} slots apart, "
                f"the carrier's {expected}; {_advice(geometry)}"
            )
        expected *= extent


def _check_inner(found: Footprint, geometry: TileGeometry, layout: Layout, what: str) -> None:
    expected = 1
    for leaf in found.by_stride()[::-1]:
        if leaf.stride != expected:
            kind = "repeats slots" if leaf.stride < expected else "leaves slots out or reaches other tiles"
            raise ValueError(
                f"{what}: the inside of a tile of {layout} {kind} (stride {leaf.stride} on axis {leaf.axis}, "
                f"expected {expected}), a tile must cover its {geometry.tile_slots} slots; {_advice(geometry)}"
            )
        expected *= leaf.extent
