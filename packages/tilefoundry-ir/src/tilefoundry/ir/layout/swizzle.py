"""Swizzles and the layouts that end in one: bank-conflict-free placements that strides cannot express."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .compose import composition
from .inttuple import IntTuple, as_int
from .layout import Layout
from .picture import draw


@dataclass(frozen=True, slots=True)
class Swizzle:
    """Index bits ``[base, base + bits)`` XORed with the bits ``shift`` places above them.

    With a negative ``shift`` the bits further up are the ones changed. A swizzle permutes each aligned
    block of ``period`` indices and is its own inverse.

    Raises:
        ValueError: ``bits`` or ``base`` negative, or ``|shift|`` below ``bits`` (the fields would overlap).

    >>> [Swizzle(1, 0, 1)(i) for i in range(4)]
    [0, 1, 3, 2]
    """

    bits: int
    base: int
    shift: int

    def __post_init__(self) -> None:
        for name in ("bits", "base", "shift"):
            object.__setattr__(self, name, as_int(getattr(self, name), f"Swizzle {name}"))
        if self.bits < 0 or self.base < 0 or abs(self.shift) < self.bits:
            raise ValueError(f"{self}: expected bits >= 0, base >= 0 and |shift| >= bits")

    @property
    def period(self) -> int:
        """Number of indices in one permuted block."""
        return 1 << (self.base + self.bits + abs(self.shift))

    def __call__(self, index: int) -> int:
        """The swizzled index."""
        source = self.base + max(self.shift, 0)
        field = (index >> source) & ((1 << self.bits) - 1)
        return index ^ (field << (source - self.shift))


@dataclass(frozen=True, slots=True)
class ComposedLayout:
    """``outer(offset + inner(c))`` with a Swizzle outside and a Layout inside.

    Raises:
        TypeError: ``outer`` is no Swizzle or ``inner`` no Layout.
        ValueError: a negative offset.
    """

    outer: Swizzle
    offset: int
    inner: Layout

    def __post_init__(self) -> None:
        if not isinstance(self.outer, Swizzle) or not isinstance(self.inner, Layout):
            raise TypeError(
                f"ComposedLayout: expected a Swizzle and a Layout, got {self.outer!r}, {self.inner!r}"
            )
        object.__setattr__(self, "offset", as_int(self.offset, "ComposedLayout offset"))
        if self.offset < 0:
            raise ValueError(f"ComposedLayout: offset is {self.offset}, expected at least 0")

    def __call__(self, *coordinate: Any) -> int:
        """The index of a coordinate, given as for ``Layout``."""
        return self.outer(self.offset + self.inner(*coordinate))

    @property
    def shape(self) -> IntTuple:
        """The shape of the inner layout."""
        return self.inner.shape

    def size(self) -> int:
        """Number of coordinates."""
        return self.inner.size()

    def cosize(self) -> int:
        """A bound on the largest index plus one: the offset and cosize, rounded up to whole periods."""
        period = self.outer.period
        return -(-(self.offset + self.inner.cosize()) // period) * period

    def compose(self, inner: Layout | int | tuple) -> ComposedLayout:
        """The layout that is this one after ``inner``."""
        return ComposedLayout(self.outer, self.offset, composition(self.inner, inner))

    def __str__(self) -> str:
        return f"{self.outer} o {self.offset} o {self.inner}"

    def _repr_svg_(self) -> str:
        return draw(self, self.shape, str(self))


def swizzled(swizzle: Swizzle, layout: Layout, offset: int = 0) -> ComposedLayout:
    """``layout`` with its indices swizzled."""
    return ComposedLayout(swizzle, offset, layout)
