"""The concrete Layout: a function from coordinates to indices given by a shape and strides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from . import inttuple
from .coordinates import crd2idx
from .inttuple import IntTuple, as_tree, compact_strides, leaves, product
from .picture import draw


@dataclass(frozen=True, slots=True)
class Layout:
    """``Layout(shape, stride)`` maps a coordinate c of ``shape`` to ``sum(c[k] * stride[k])``.

    Both are trees of ints with the same form: extents at least 1, strides at least 0. Coordinates count with
    the first mode fastest, so ``layout(i)`` for ``i in range(size)`` walks the whole domain. Without strides
    the layout is dense. Values compare and hash by shape and stride; safe to share between threads.

    Raises:
        TypeError: a leaf is a bool or no integer.
        ValueError: an extent below 1, a negative stride, or trees of different form.

    >>> Layout((4, 6), (6, 1))(2, 3)
    15
    """

    shape: IntTuple
    stride: IntTuple = None

    def __post_init__(self) -> None:
        shape = as_tree(self.shape, "Layout shape", 1)
        given = self.stride
        stride = compact_strides(shape) if given is None else as_tree(given, "Layout stride", 0)
        if not inttuple.congruent(shape, stride):
            raise ValueError(f"Layout: shape {shape} and stride {stride} must be trees of the same form")
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)

    def __call__(self, *coordinate: Any) -> int:
        """The index of a coordinate, given as one tree, as one index per mode, or as one linear index."""
        crd = coordinate[0] if len(coordinate) == 1 else coordinate
        return crd2idx(crd, self.shape, self.stride)

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return inttuple.rank(self.shape)

    @property
    def depth(self) -> int:
        """Nesting depth of the shape; 0 for a single extent."""
        return inttuple.depth(self.shape)

    def size(self) -> int:
        """Number of coordinates."""
        return product(self.shape)

    def cosize(self) -> int:
        """One more than the largest index reached."""
        return 1 + sum((s - 1) * d for s, d in self.flat_modes())

    def flat_modes(self) -> list[tuple[int, int]]:
        """The leaves as ``(extent, stride)`` pairs, left to right."""
        return list(zip(leaves(self.shape), leaves(self.stride), strict=True))

    def modes(self) -> tuple[Layout, ...]:
        """The top-level modes as layouts; a single extent is its own only mode."""
        if not isinstance(self.shape, tuple):
            return (self,)
        return tuple(map(Layout, self.shape, self.stride))

    def __getitem__(self, position: int) -> Layout:
        return self.modes()[position]

    def __iter__(self) -> Iterator[Layout]:
        return iter(self.modes())

    def __len__(self) -> int:
        return self.rank

    def flatten(self) -> Layout:
        """The same function over a flat shape."""
        return Layout(inttuple.flatten(self.shape), inttuple.flatten(self.stride))

    def __str__(self) -> str:
        return f"{_text(self.shape)}:{_text(self.stride)}"

    def _repr_svg_(self) -> str:
        return draw(self, self.shape, str(self))


def _text(tree: IntTuple) -> str:
    if isinstance(tree, tuple):
        return "(" + ",".join(map(_text, tree)) + ")"
    return str(tree)


def concatenate(*modes: Layout) -> Layout:
    """The layout whose top-level modes are ``modes``."""
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def from_flat_modes(modes: list[tuple[int, int]]) -> Layout:
    """The flat layout of ``(extent, stride)`` pairs; one pair gives a single extent, none gives ``1:0``."""
    if not modes:
        return Layout(1, 0)
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(s for s, _ in modes), tuple(d for _, d in modes))
