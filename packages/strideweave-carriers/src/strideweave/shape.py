"""Shape: nested positive extents and the coordinates they count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.layout import IntTuple, crd2idx, depth, flatten, idx2crd, product, rank


def _positive(value: object) -> IntTuple:
    if isinstance(value, Shape):
        return value.extents
    if isinstance(value, (tuple, list)):
        return tuple(_positive(v) for v in value)
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"Shape: expected integer extents, got {type(value).__name__} {value!r}")
    extent = value.__index__()  # type: ignore[attr-defined] # hasattr above
    if extent < 1:
        raise ValueError(f"Shape: extent {extent} is below 1; an empty axis cannot be laid out")
    return extent


@dataclass(frozen=True, slots=True, init=False)
class Shape:
    """A tree of extents, each at least 1. Coordinates count with the first mode fastest.

    ``Shape(4, (2, 3))`` and ``Shape((4, (2, 3)))`` are the same; ``Shape(())`` has one coordinate, ``()``.

    Raises:
        TypeError: an extent is a bool or no integer.
        ValueError: an extent below 1.

    >>> Shape(4, (2, 3)).decode(9)
    (1, (0, 1))
    """

    extents: IntTuple

    def __init__(self, *extents: Any) -> None:
        given = extents[0] if len(extents) == 1 else extents
        object.__setattr__(self, "extents", _positive(given))

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return rank(self.extents)

    @property
    def depth(self) -> int:
        """Nesting depth; 0 for a single extent."""
        return depth(self.extents)

    def size(self) -> int:
        """Number of coordinates."""
        return product(self.extents)

    def leaves(self) -> tuple[int, ...]:
        """The extents without their nesting."""
        return flatten(self.extents)

    def decode(self, index: int) -> IntTuple:
        """The coordinate number ``index``.

        Raises:
            TypeError: ``index`` is a bool or no integer.
            ValueError: ``index`` is outside ``[0, size)``.
        """
        return idx2crd(index, self.extents)

    def encode(self, coordinate: IntTuple) -> int:
        """The number of ``coordinate``; an integer may stand where a mode is nested.

        Raises:
            TypeError: a component is a bool or no integer.
            ValueError: a component is outside its extent, or the form differs.
        """
        return crd2idx(coordinate, self.extents)

    def __iter__(self) -> Iterator[IntTuple]:
        return iter(self.modes())

    def __len__(self) -> int:
        return self.rank

    def __getitem__(self, position: int) -> IntTuple:
        return self.modes()[position]

    def modes(self) -> tuple[IntTuple, ...]:
        """The top-level modes; a single extent is its own only mode."""
        return self.extents if isinstance(self.extents, tuple) else (self.extents,)

    def __repr__(self) -> str:
        return f"Shape({self.extents})"
