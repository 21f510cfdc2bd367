"""The IR's layout records: shapes and strides that may hold DimVars, or no strides yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tilefoundry.ir import layout as algebra
from tilefoundry.ir.types.dim import Dim, DimExpr, DimVar, bounds, evaluate_dim, product
from tilefoundry.ir.types.written import as_entries

__all__ = ["ComposedLayout", "Empty", "Layout", "c_order"]


@dataclass(frozen=True, slots=True)
class Empty:
    """The concrete form of a layout with an extent of 0: nothing is addressed.

    Attributes:
        shape: the concrete extents, at least one of them 0.
    """

    shape: tuple[int, ...]

    def size(self) -> int:
        """0."""
        return 0

    def cosize(self) -> int:
        """0: no element needs storage."""
        return 0


@dataclass(frozen=True, slots=True)
class Layout:
    """``shape`` and ``strides``, one per mode, in elements; the last mode is fastest where none are given.

    ``strides`` None says that they are not settled yet; typing a ``reshard`` settles them.

    Raises:
        TypeError, ValueError: modes that are no extents or strides, or counts that differ.

    >>> Layout((4, 6)).concrete({})
    Layout(shape=(4, 6), stride=(6, 1))
    """

    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...] | None = None

    def __post_init__(self) -> None:
        shape = tuple(
            _checked("extent", dim)
            for dim in as_entries("Layout: shape is a tuple with one entry per mode", self.shape)
        )
        object.__setattr__(self, "shape", shape)
        if self.strides is None:
            return
        strides = tuple(
            _checked("stride", dim)
            for dim in as_entries("Layout: strides is a tuple with one entry per mode", self.strides)
        )
        if len(strides) != len(shape):
            raise ValueError(
                f"Layout: {len(shape)} extents {self.shape} but {len(strides)} strides {self.strides}"
            )
        object.__setattr__(self, "strides", strides)

    @property
    def rank(self) -> int:
        """Number of modes."""
        return len(self.shape)

    @property
    def size(self) -> Dim:
        """Number of elements."""
        return product(self.shape)

    @property
    def settled(self) -> tuple[Dim, ...]:
        """The strides; C-order over the shape where none are given."""
        return c_order(self.shape) if self.strides is None else self.strides

    def concrete(self, env: Mapping[str, int]) -> algebra.Layout | Empty:
        """The same layout over integers; ``env`` gives each DimVar's value.

        Raises KeyError naming a DimVar that ``env`` leaves out.
        """
        shape = tuple(evaluate_dim(dim, env) for dim in self.shape)
        if 0 in shape:
            return Empty(shape)
        return algebra.Layout(shape, tuple(evaluate_dim(dim, env) for dim in self.settled))

    def dims(self) -> Iterator[Dim]:
        """Every extent, then every given stride."""
        yield from self.shape
        yield from self.strides or ()

    def __str__(self) -> str:
        shape = _text(self.shape)
        return shape if self.strides is None else f"{shape}:{_text(self.strides)}"


@dataclass(frozen=True, slots=True)
class ComposedLayout:
    """``outer(offset + inner(c))``: a layout whose index goes through a swizzle.

    Args:
        outer: a ``Swizzle`` of ``tilefoundry.ir.layout``, or None for none.
        offset: elements added before it.
        inner: the layout.
    """

    outer: algebra.Swizzle | None
    offset: Dim
    inner: Layout

    def __post_init__(self) -> None:
        if self.outer is not None and not isinstance(self.outer, algebra.Swizzle):
            raise TypeError(f"ComposedLayout: outer is a Swizzle or None, got {self.outer!r}")
        if not isinstance(self.inner, Layout):
            raise TypeError(f"ComposedLayout: inner is a Layout, got {self.inner!r}")
        object.__setattr__(self, "offset", _checked("offset", self.offset))

    @property
    def shape(self) -> tuple[Dim, ...]:
        """The inner layout's shape."""
        return self.inner.shape

    @property
    def strides(self) -> tuple[Dim, ...] | None:
        """The inner layout's strides."""
        return self.inner.strides

    def concrete(self, env: Mapping[str, int]) -> algebra.ComposedLayout | Empty:
        """The same layout over integers; the identity stands in where there is no swizzle."""
        inner = self.inner.concrete(env)
        if isinstance(inner, Empty):
            return inner
        return algebra.ComposedLayout(
            self.outer or algebra.Swizzle(0, 0, 0), evaluate_dim(self.offset, env), inner
        )

    def dims(self) -> Iterator[Dim]:
        """The offset, then the inner layout's dims."""
        yield self.offset
        yield from self.inner.dims()

    def __str__(self) -> str:
        return f"{self.outer or 'identity'} o {self.offset} o {self.inner}"


AnyLayout = Layout | ComposedLayout


def c_order(shape: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """Dense strides with the last mode fastest."""
    strides: list[Dim] = []
    step: Dim = 1
    for extent in reversed(shape):
        strides.append(step)
        step = step * extent
    return tuple(reversed(strides))


def _checked(what: str, dim: object) -> Dim:
    if isinstance(dim, (DimVar, DimExpr)):
        if bounds(dim)[1] < 0:
            raise ValueError(f"Layout: the {what} {dim} is negative for every value of its variables")
        return dim
    if isinstance(dim, tuple):
        raise TypeError(f"Layout: modes are flat, got the nested {what} {dim!r}; list its factors one by one")
    if isinstance(dim, bool) or not hasattr(dim, "__index__"):
        raise TypeError(f"Layout: each {what} is an int or a dim, got {dim!r}")
    value = dim.__index__()  # type: ignore[attr-defined]  # checked on the line above
    if value < 0:
        raise ValueError(f"Layout: each {what} must be at least 0, got {value}")
    return value


def _text(dims: tuple[Dim, ...]) -> str:
    return f"({', '.join(map(str, dims))}{',' if len(dims) == 1 else ''})"
