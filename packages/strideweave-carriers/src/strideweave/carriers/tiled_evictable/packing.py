"""Packing: where the tiles of a selection lie in the compact tensor, in either of two orders.

``canonical``: the compact tensor is dense, first axis fastest. ``tile``: the tiles lie one after another, each
as it lies in its slot, which makes a gather a copy of whole rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Literal

from ...layout import Layout
from .compatibility import Footprint, Leaf
from .geometry import TileGeometry

if TYPE_CHECKING:
    import torch

Order = Literal["canonical", "tile"]
ORDERS: tuple[Order, ...] = ("canonical", "tile")


@dataclass(frozen=True, slots=True)
class Packing:
    """The compact form of ``counts`` tiles per axis.

    ``layout`` is the compact tensor's. ``verbatim`` says that compact tile k is exactly the k-th run of
    ``tile_slots`` slots, in the order of its slot. ``_shape`` and ``_order`` view the flat compact tensor as
    ``[count of the last axis, ..., of the first, leaves by falling stride]``.
    """

    counts: tuple[int, ...]
    tile_slots: int
    layout: Layout
    verbatim: bool
    tile_dims: tuple[int, ...]
    _shape: tuple[int, ...]
    _order: tuple[int, ...]
    tiles: int = field(init=False)
    """How many tiles."""
    slots: int = field(init=False)
    """How many slots the compact tensor has."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "tiles", prod(self.counts))
        object.__setattr__(self, "slots", self.tiles * self.tile_slots)

    def by_tile(self, flat: torch.Tensor) -> torch.Tensor:
        """A flat compact tensor viewed with one leading dimension per axis, last first, then the tile's leaves."""
        return flat[: self.slots].view(self._shape).permute(self._order)

    def place(self, k: int) -> tuple[int, ...]:
        """The index into ``by_tile`` of compact tile ``k``."""
        index = []
        for count in self.counts:
            k, component = divmod(k, count)
            index.append(component)
        return tuple(index[::-1])


@lru_cache(maxsize=512)
def packing(footprint: Footprint, geometry: TileGeometry, counts: tuple[int, ...], order: Order) -> Packing:
    """The packing of ``counts`` tiles per axis of a tensor with this footprint."""
    by_stride = footprint.by_stride()
    tile_dims = tuple(leaf.extent for leaf in by_stride)
    if order == "tile":
        shape = (*counts[::-1], *tile_dims)
        return Packing(
            counts, geometry.tile_slots, _tile_layout(footprint, geometry, counts), True, tile_dims, shape,
            tuple(range(len(shape))),
        )  # fmt: skip
    axes, shape = _canonical_axes(footprint, counts)
    wanted: list[tuple[int, Leaf | None]] = [(a, None) for a in reversed(range(len(counts)))]
    wanted += [(leaf.axis, leaf) for leaf in by_stride]
    permutation = tuple(axes.index(entry) for entry in wanted)
    layout = Layout(tuple(n * t for n, t in zip(counts, geometry.tile_shape, strict=True)))
    real = [p for p in permutation if shape[p] > 1]
    return Packing(counts, geometry.tile_slots, layout, real == sorted(real), tile_dims, shape, permutation)


def _canonical_axes(
    footprint: Footprint, counts: tuple[int, ...]
) -> tuple[list[tuple[int, Leaf | None]], tuple[int, ...]]:
    """What each dimension of the dense compact tensor counts, slowest first: tiles (None) or a leaf."""
    axes: list[tuple[int, Leaf | None]] = []
    shape: list[int] = []
    for axis in reversed(range(len(counts))):
        axes.append((axis, None))
        shape.append(counts[axis])
        for leaf in reversed(footprint.inner[axis]):
            axes.append((axis, leaf))
            shape.append(leaf.extent)
    return axes, tuple(shape)


def _tile_layout(footprint: Footprint, geometry: TileGeometry, counts: tuple[int, ...]) -> Layout:
    shape, stride = [], []
    step = geometry.tile_slots
    for axis, count in enumerate(counts):
        leaves = [(leaf.extent, leaf.stride) for leaf in footprint.inner[axis]]
        leaves += [(count, step)] if count > 1 else []
        step *= count
        if len(leaves) == 1:
            shape.append(leaves[0][0])
            stride.append(leaves[0][1])
        elif leaves:
            shape.append(tuple(e for e, _ in leaves))
            stride.append(tuple(s for _, s in leaves))
        else:
            shape.append(1)
            stride.append(0)
    return Layout(tuple(shape), tuple(stride))
