"""TileSelection: the tiles of one compact tensor, an ordered product of per-axis choices."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any, NoReturn

from .coordinates import as_component, read_all, read_components
from .geometry import TileGeometry
from .router import distinct_ids
from .tile_set import Coordinate, TileSet

_FIRST = (0,)
"""What is taken of an axis with nothing to choose from."""


@dataclass(frozen=True, slots=True, init=False)
class TileSelection:
    """``TileSelection(per_axis)``: for each grid axis the coordinates taken, in the order given.

    The compact tile c is the source tile ``tuple(per_axis[i][c[i]] for i in range(rank))``; compact tiles are
    counted with the first axis fastest.

    Raises:
        TypeError: no finite iterable of finite iterables of integers.
        ValueError: no axis, an empty axis, a coordinate twice on one axis, or a negative one.

    >>> TileSelection([[7, 2], [4, 9]]).coordinates
    ((7, 4), (2, 4), (7, 9), (2, 9))
    """

    per_axis: tuple[tuple[int, ...], ...]
    _counts: tuple[int, ...] = field(compare=False, repr=False)
    _cache: dict[Any, Any] = field(compare=False, repr=False)

    def __init__(self, per_axis: Iterable[Iterable[int]]) -> None:
        axes = tuple(read_components(axis, "TileSelection") for axis in read_all(per_axis, "TileSelection"))
        _check(axes)
        object.__setattr__(self, "per_axis", axes)
        object.__setattr__(self, "_counts", tuple(map(len, axes)))
        object.__setattr__(self, "_cache", {})

    @classmethod
    def from_tensor(cls, ids: Any, grid_shape: Iterable[int], axis: int = 0) -> tuple[TileSelection, Any]:
        """The distinct ids of a router's output, ascending, and where each went.

        ``ids`` is an integer Tensor or torch tensor of any shape. The selection takes every tile of the other
        axes. The second result has the shape and kind of ``ids``: the position of each id on the compact axis.
        One copy from the device is made, of one flag per grid position.

        Raises:
            TypeError: ``ids`` is no dense integer tensor with values, or ``axis`` or an extent no integer.
            ValueError: ``ids`` is empty or holds an id outside the grid, ``axis`` is outside the grid's rank, or an
                extent is below 1.
        """
        grid = read_components(grid_shape, "from_tensor grid_shape")
        if not grid or min(grid) < 1:
            raise ValueError(f"from_tensor grid_shape: {grid} must have axes, each of at least one tile")
        at = as_component(axis, "from_tensor axis")
        if not 0 <= at < len(grid):
            raise ValueError(f"from_tensor: axis {at} is outside a grid of rank {len(grid)}")
        distinct, inverse = distinct_ids(ids, grid[at])
        return cls([distinct if i == at else range(extent) for i, extent in enumerate(grid)]), inverse

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.per_axis)

    @property
    def compact_grid_shape(self) -> tuple[int, ...]:
        """Tiles taken per axis."""
        return self._counts

    @property
    def coordinates(self) -> tuple[Coordinate, ...]:
        """The source tiles in compact order, first axis fastest."""
        return self._once("coordinates", lambda: tuple(c[::-1] for c in product(*self.per_axis[::-1])))

    @property
    def tile_set(self) -> TileSet:
        """The source tiles as a set."""
        return self._once("tile_set", lambda: TileSet(self.coordinates))

    def __len__(self) -> int:
        return prod(self.compact_grid_shape)

    def bind(self, geometry: TileGeometry, what: str = "TileSelection") -> tuple[int, ...]:
        """The codes of the source tiles in compact order.

        Raises:
            ValueError: another rank, or a coordinate outside the grid; the message names the axis.
        """
        codes = self._cache.get(geometry.grid_shape)
        if codes is None:
            # Two threads may both make it; the one that is kept counts, by identity too.
            codes = self._cache.setdefault(geometry.grid_shape, self._codes(geometry, what))
        return codes

    def _codes(self, geometry: TileGeometry, what: str) -> tuple[int, ...]:
        if len(self.per_axis) != len(geometry.grid_shape):
            raise ValueError(
                f"{what}: the selection has rank {self.rank}, the grid {geometry.rank}; give a list of coordinates for "
                f"each axis of {geometry.grid_shape}"
            )
        first, *others = self.per_axis
        if max(first) >= geometry.grid_shape[0]:
            self._refuse_outside(geometry, what)
        # Mostly the first axis is chosen from, and the others have one tile.
        if others.count(_FIRST) == len(others):
            return first
        codes: Sequence[int] = (0,)
        step = 1
        for extent, taken in zip(geometry.grid_shape, self.per_axis, strict=True):
            # Of some axes the first tile alone is taken.
            if taken != _FIRST:
                if max(taken) >= extent:
                    self._refuse_outside(geometry, what)
                codes = [before + step * component for component in taken for before in codes]
            step *= extent
        return tuple(codes)

    def _refuse_outside(self, geometry: TileGeometry, what: str) -> NoReturn:
        for axis, (extent, taken) in enumerate(zip(geometry.grid_shape, self.per_axis, strict=True)):
            if max(taken) >= extent:
                raise ValueError(
                    f"{what}: coordinate {max(taken)} on axis {axis} is outside the grid's {extent} tiles"
                )
        raise AssertionError(f"{what}: every coordinate is inside the grid")

    def _once(self, key: Any, make: Any) -> Any:
        value = self._cache.get(key)
        if value is None:
            # Two threads may both make it; the values are equal.
            value = self._cache[key] = make()
        return value

    def __reduce__(self) -> tuple[object, ...]:
        return TileSelection, (self.per_axis,)


def _check(axes: Sequence[tuple[int, ...]]) -> None:
    if not axes:
        raise ValueError("TileSelection: no axes; give the coordinates taken on each grid axis")
    for axis, taken in enumerate(axes):
        if not taken:
            raise ValueError(
                f"TileSelection: axis {axis} is empty; a compact tensor needs at least one tile per axis"
            )
        if min(taken) < 0:
            raise ValueError(f"TileSelection: axis {axis} has the negative coordinate {min(taken)}")
        if len(set(taken)) != len(taken):
            twice = next(c for k, c in enumerate(taken) if c in taken[:k])
            raise ValueError(
                f"TileSelection: axis {axis} has coordinate {twice} twice; every tile is taken once"
            )


def as_tile_set(tiles: object, what: str) -> TileSet:
    """A TileSet itself, or the set of a TileSelection.

    Raises:
        TypeError: anything else.
    """
    if isinstance(tiles, TileSet):
        return tiles
    if isinstance(tiles, TileSelection):
        return tiles.tile_set
    raise TypeError(f"{what}: expected a TileSet or TileSelection, got {type(tiles).__name__} {tiles!r}")
