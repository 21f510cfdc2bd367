"""Layout: a shape and strides over the slots of a carrier. The algebra is ``tilefoundry.ir.layout``'s."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tilefoundry.ir import layout as algebra
from tilefoundry.ir.layout import IntTuple

from .shape import Shape


@dataclass(frozen=True, slots=True, init=False)
class Layout:
    """``Layout(shape, stride)``: coordinate c lies at slot ``sum(c[k] * stride[k])`` after a Tensor's offset.

    Both trees have the same form, strides are at least 0; without strides the layout is dense, first mode
    fastest. A Layout has no offset.

    Raises:
        TypeError: a bool or no integer in either tree.
        ValueError: an extent below 1, a negative stride, or trees of different form.

    >>> Layout((4, 6), (6, 1)).index((2, 3))
    15
    """

    shape: Shape
    stride: IntTuple
    concrete: algebra.Layout = field(repr=False, compare=False)
    """The algebra's Layout equal to this one."""

    _extent: tuple[int, int] = field(repr=False, compare=False)

    def __init__(self, shape: Any, stride: Any = None) -> None:
        checked = shape if isinstance(shape, Shape) else Shape(shape)
        inner = algebra.Layout(checked.extents, stride)
        object.__setattr__(self, "shape", checked)
        object.__setattr__(self, "stride", inner.stride)
        object.__setattr__(self, "concrete", inner)
        # Asked for by every operation and move.
        object.__setattr__(self, "_extent", (inner.size(), inner.cosize()))

    @classmethod
    def of(cls, inner: algebra.Layout) -> Layout:
        """The Layout equal to one of the algebra's."""
        return cls(inner.shape, inner.stride)

    @property
    def rank(self) -> int:
        """Number of top-level modes."""
        return self.shape.rank

    def index(self, coordinate: Any) -> int:
        """The slot of ``coordinate``, which may also be a linear index or have integers for nested modes."""
        return self.concrete(coordinate)

    def __call__(self, *coordinate: Any) -> int:
        """``index`` of the coordinate given as one tree, as one index per mode, or as one linear index."""
        return self.concrete(*coordinate)

    def size(self) -> int:
        """Number of coordinates."""
        return self._extent[0]

    def cosize(self) -> int:
        """One more than the largest slot reached."""
        return self._extent[1]

    def is_injective(self) -> bool:
        """Whether no two coordinates share a slot; decided without walking them."""
        return algebra.is_injective(self.concrete)

    def is_dense(self) -> bool:
        """Whether the strides are those of the dense layout, first mode fastest (extents of 1 aside)."""
        step = 1
        for extent, stride in self.concrete.flat_modes():
            if extent > 1 and stride != step:
                return False
            step *= extent
        return True

    def modes(self) -> tuple[Layout, ...]:
        """The top-level modes as Layouts."""
        return tuple(map(Layout.of, self.concrete.modes()))

    def coalesce(self) -> Layout:
        """The same function of a linear index with as few modes as possible."""
        return Layout.of(algebra.coalesce(self.concrete))

    def composition(self, inner: Any) -> Layout:
        """The Layout C with ``C(i) == self(inner(i))``; see ``tilefoundry.ir.layout.composition``."""
        return Layout.of(algebra.composition(self.concrete, _tiler(inner)))

    def complement(self, cotarget: int | None = None) -> Layout:
        """The Layout of the slots below ``cotarget`` that this one leaves out."""
        return Layout.of(algebra.complement(self.concrete, cotarget))

    def logical_divide(self, tiler: Any) -> Layout:
        """``((tile), (rest))``, by mode for a sequence of tilers."""
        return Layout.of(algebra.logical_divide(self.concrete, _tiler(tiler)))

    def zipped_divide(self, tiler: Any) -> Layout:
        """All tile modes in mode 0, all rests in mode 1."""
        return Layout.of(algebra.zipped_divide(self.concrete, _tiler(tiler)))

    def tiled_divide(self, tiler: Any) -> Layout:
        """All tile modes in mode 0, then the rests."""
        return Layout.of(algebra.tiled_divide(self.concrete, _tiler(tiler)))

    def flat_divide(self, tiler: Any) -> Layout:
        """The tile modes, then the rests."""
        return Layout.of(algebra.flat_divide(self.concrete, _tiler(tiler)))

    def logical_product(self, tiler: Any) -> Layout:
        """This Layout repeated as ``tiler`` says."""
        return Layout.of(algebra.logical_product(self.concrete, _tiler(tiler)))

    def blocked_product(self, tiler: Layout) -> Layout:
        """The product by mode with whole blocks next to one another."""
        return Layout.of(algebra.blocked_product(self.concrete, tiler.concrete))

    def raked_product(self, tiler: Layout) -> Layout:
        """The product by mode with blocks spread over the whole."""
        return Layout.of(algebra.raked_product(self.concrete, tiler.concrete))

    def right_inverse(self) -> Layout:
        """R with ``self(R(i)) == i``."""
        return Layout.of(algebra.right_inverse(self.concrete))

    def left_inverse(self) -> Layout:
        """L with ``L(self(i)) == i``."""
        return Layout.of(algebra.left_inverse(self.concrete))

    def __repr__(self) -> str:
        return f"Layout({self.shape.extents}, {self.stride})"

    def _repr_svg_(self) -> str:
        return self.concrete._repr_svg_()


def _tiler(value: Any) -> Any:
    if isinstance(value, Layout):
        return value.concrete
    if isinstance(value, Shape):
        return algebra.Layout(value.extents)
    if isinstance(value, Sequence):
        return tuple(map(_tiler, value))
    return value
