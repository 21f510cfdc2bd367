"""The grid: how many tiles, how large, which slots each owns, and the Layout that says so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

from tilefoundry.ir.layout import IntTuple

from ...layout import Layout
from .coordinates import read_components


@dataclass(frozen=True, slots=True)
class TileGeometry:
    """``grid_shape`` tiles of ``tile_shape`` slots along each axis; no ragged edge.

    A tile's *code* is its number in the grid, first axis fastest. The tile with code c owns the slots
    ``[c * tile_slots, (c + 1) * tile_slots)``.

    Raises:
        TypeError: an extent is no integer, or the shape no iterable.
        ValueError: an extent below 1, no axes, or two ranks.
    """

    grid_shape: tuple[int, ...]
    tile_shape: tuple[int, ...]
    tile_slots: int = field(init=False, compare=False)
    tile_count: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        grid = read_components(self.grid_shape, "grid_shape")
        tile = read_components(self.tile_shape, "tile_shape")
        if len(grid) != len(tile) or not grid:
            raise ValueError(
                f"grid_shape {grid} and tile_shape {tile}: both need one extent per axis, at least one"
            )
        for name, shape in (("grid_shape", grid), ("tile_shape", tile)):
            if min(shape) < 1:
                raise ValueError(f"{name}: {shape} has an extent below 1")
        object.__setattr__(self, "grid_shape", grid)
        object.__setattr__(self, "tile_shape", tile)
        object.__setattr__(self, "tile_slots", prod(tile))
        object.__setattr__(self, "tile_count", prod(grid))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.grid_shape)

    @property
    def slots(self) -> int:
        """Number of slots of all tiles."""
        return self.tile_slots * self.tile_count

    @property
    def logical_shape(self) -> tuple[int, ...]:
        """The extent of each axis in elements."""
        return tuple(g * t for g, t in zip(self.grid_shape, self.tile_shape, strict=True))

    def code(self, coordinate: Sequence[int]) -> int:
        """The number of the tile at ``coordinate``, which lies inside the grid."""
        code, step = 0, 1
        for extent, component in zip(self.grid_shape, coordinate, strict=True):
            code, step = code + component * step, step * extent
        return code

    def coordinate(self, code: int) -> tuple[int, ...]:
        """The coordinate of the tile numbered ``code``."""
        components = []
        for extent in self.grid_shape:
            code, component = divmod(code, extent)
            components.append(component)
        return tuple(components)

    def require_inside(self, coordinate: Sequence[int], what: str) -> None:
        """Raise ValueError where ``coordinate`` has another rank or lies outside the grid."""
        if len(coordinate) != self.rank:
            raise ValueError(
                f"{what}: coordinate {tuple(coordinate)} has rank {len(coordinate)}, the grid {self.rank}"
            )
        for axis, (extent, component) in enumerate(zip(self.grid_shape, coordinate, strict=True)):
            if not 0 <= component < extent:
                raise ValueError(
                    f"{what}: coordinate {tuple(coordinate)} is outside the grid {self.grid_shape} on axis {axis}"
                )

    def outer_strides(self) -> Iterator[int]:
        """The slots between neighbouring tiles, per axis."""
        step = self.tile_slots
        for extent in self.grid_shape:
            yield step
            step *= extent

    def canonical_layout(self) -> Layout:
        """The Layout of the logical shape whose tiles are dense, first axis fastest.

        A mode is ``(tile, grid)``, or flat where one of the two is 1.
        """
        shape: list[IntTuple] = []
        stride: list[IntTuple] = []
        inner = 1
        for tile, grid, outer in zip(self.tile_shape, self.grid_shape, self.outer_strides(), strict=True):
            mode = [(e, s) for e, s in ((tile, inner), (grid, outer)) if e > 1] or [(1, inner)]
            shape.append(mode[0][0] if len(mode) == 1 else tuple(e for e, _ in mode))
            stride.append(mode[0][1] if len(mode) == 1 else tuple(s for _, s in mode))
            inner *= tile
        return Layout(tuple(shape), tuple(stride))
