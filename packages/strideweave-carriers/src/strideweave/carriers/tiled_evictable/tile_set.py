"""TileSet: any finite set of tiles, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from .coordinates import read_all, read_components
from .geometry import TileGeometry

Coordinate = tuple[int, ...]


@dataclass(frozen=True, slots=True, init=False)
class TileSet:
    """``TileSet(coordinates)``: tiles of one rank, sorted with the first axis varying fastest.

    The set need not be a product of axes. Empty, it has no rank and fits every grid.

    Raises:
        TypeError: no finite iterable of finite iterables of integers.
        ValueError: mixed ranks, a negative component, or a coordinate given twice.

    >>> TileSet([(1, 0), (0, 1), (0, 0)]).coordinates
    ((0, 0), (1, 0), (0, 1))
    """

    coordinates: tuple[Coordinate, ...]
    _codes: dict[tuple[int, ...], tuple[int, ...]] = field(compare=False, repr=False)

    def __init__(self, coordinates: Iterable[Iterable[int]] = ()) -> None:
        given = [read_components(c, "TileSet") for c in read_all(coordinates, "TileSet")]
        _check(given)
        object.__setattr__(self, "coordinates", tuple(sorted(given, key=lambda c: c[::-1])))
        object.__setattr__(self, "_codes", {})

    @property
    def rank(self) -> int | None:
        """Number of axes; None for the empty set."""
        return len(self.coordinates[0]) if self.coordinates else None

    def bind(self, geometry: TileGeometry, what: str = "TileSet") -> tuple[int, ...]:
        """The tiles' codes in ``geometry``, ascending.

        Raises:
            ValueError: another rank, or a coordinate outside the grid.
        """
        codes = self._codes.get(geometry.grid_shape)
        if codes is None:
            for coordinate in self.coordinates:
                geometry.require_inside(coordinate, what)
            codes = tuple(map(geometry.code, self.coordinates))
            self._codes[geometry.grid_shape] = codes
        return codes

    def __contains__(self, coordinate: object) -> bool:
        return coordinate in self.coordinates

    def __iter__(self) -> Iterator[Coordinate]:
        return iter(self.coordinates)

    def __len__(self) -> int:
        return len(self.coordinates)

    def __reduce__(self) -> tuple[object, ...]:
        return TileSet, (self.coordinates,)


def _check(given: list[Coordinate]) -> None:
    seen: set[Coordinate] = set()
    for coordinate in given:
        if len(coordinate) != len(given[0]):
            raise ValueError(f"TileSet: coordinates {given[0]} and {coordinate} have different ranks")
        if not coordinate:
            raise ValueError("TileSet: a coordinate needs at least one axis")
        if min(coordinate) < 0:
            raise ValueError(f"TileSet: coordinate {coordinate} has a negative component")
        if coordinate in seen:
            raise ValueError(f"TileSet: coordinate {coordinate} was given twice")
        seen.add(coordinate)


def of_codes(codes: Iterable[int], geometry: TileGeometry) -> TileSet:
    """The set of the tiles numbered ``codes``, which are distinct and inside the grid."""
    ordered = tuple(sorted(codes))
    tiles = TileSet.__new__(TileSet)
    object.__setattr__(tiles, "coordinates", tuple(map(geometry.coordinate, ordered)))
    object.__setattr__(tiles, "_codes", {geometry.grid_shape: ordered})
    return tiles
