"""Tensor: a Layout over the slots of a carrier, from an offset; a value that operations consume."""

from __future__ import annotations

from typing import Any

from tilefoundry.ir.layout import IntTuple, as_int

from . import registry
from .autograd.mode import is_grad_enabled
from .carriers.base import Carrier
from .dtypes import DType, Scalar
from .layout import Layout
from .shape import Shape


class Tensor:
    """``Tensor(carrier, offset, layout)``: coordinate c is slot ``offset + layout(c)``.

    It wants a gradient when its type is floating point and grad mode was on when it was made. ``grad`` of a
    leaf, or of a tensor after ``retain_grad()``, is None until a backward reaches it.

    Raises:
        TypeError: an argument of another type.
        ValueError: a negative offset, or slots beyond the carrier's end.
        RuntimeError: the carrier was released.
    """

    __slots__ = (
        "__weakref__",
        "_carrier",
        "_differentiable",
        "_layout",
        "_node",
        "_offset",
        "_retains",
        "grad",
    )

    def __init__(self, carrier: Carrier, offset: int, layout: Layout) -> None:
        if not isinstance(carrier, Carrier):
            raise TypeError(f"Tensor: expected a carrier, got {type(carrier).__name__}")
        if not isinstance(layout, Layout):
            raise TypeError(
                f"Tensor: expected a Layout, got {type(layout).__name__}; build one with Layout(shape)"
            )
        carrier.require_live("Tensor")
        self._offset = as_int(offset, "Tensor offset")
        if self._offset < 0 or self._offset + layout.cosize() > carrier.size():
            raise ValueError(
                f"Tensor: {layout} from offset {self._offset} needs slots up to {self._offset + layout.cosize()}, "
                f"the {type(carrier).__name__} has {carrier.size()}"
            )
        self._carrier, self._layout = carrier, layout
        self._differentiable = carrier.dtype().is_float and is_grad_enabled()
        self._node: Any = None
        self._retains = False
        self.grad: Tensor | None = None

    @property
    def carrier(self) -> Carrier:
        """Where the values lie."""
        return self._carrier

    @property
    def offset(self) -> int:
        """The slot of the first coordinate."""
        return self._offset

    @property
    def layout(self) -> Layout:
        """Shape and strides."""
        return self._layout

    @property
    def shape(self) -> Shape:
        """The layout's shape."""
        return self._layout.shape

    @property
    def version(self) -> int:
        """The carrier's value version."""
        return self._carrier.version

    @property
    def autograd_ctx(self) -> Any:
        """The node of the operation that made this tensor; None for a leaf. It has ``inputs()``."""
        return self._node

    def size(self) -> int:
        """Number of coordinates."""
        return self._layout.size()

    def dtype(self) -> DType:
        """The element type."""
        return self._carrier.dtype()

    def is_mutable(self) -> bool:
        """Whether values may be written through the carrier."""
        return self._carrier.is_mutable()

    def is_differentiable(self) -> bool:
        """Whether a backward computes a gradient for this tensor."""
        return self._differentiable

    def is_leaf(self) -> bool:
        """Whether no recorded operation made this tensor."""
        return self._node is None

    def retain_grad(self) -> None:
        """Keep ``grad`` for this tensor though it is no leaf.

        Raises:
            RuntimeError: the tensor wants no gradient.
        """
        if not self._differentiable:
            raise RuntimeError(f"retain_grad: this {self.describe()} wants no gradient")
        self._retains = True

    def retains_grad(self) -> bool:
        """Whether a backward leaves a gradient in ``grad``."""
        return self._differentiable and (self._node is None or self._retains)

    def backward(
        self, gradient: Tensor | None = None, retain_graph: bool = False, *, create_graph: bool = False
    ) -> None:
        """Add the gradients of this tensor, weighted by ``gradient``, to the leaves' ``grad``.

        ``gradient`` has this tensor's shape and type; it may be left out for a tensor of size 1. Everything
        saved is checked before any gradient is written. The graph is freed unless ``retain_graph``.

        Raises:
            TypeError: ``gradient`` is no Tensor or of another type; ``create_graph`` is asked for.
            ValueError: ``gradient`` has another shape, or is missing for several values.
            RuntimeError: nothing to differentiate, a saved value was written or released, or a freed graph.
        """
        if create_graph is not False:
            raise TypeError("backward: create_graph is not provided; gradients of gradients are not recorded")
        registry.call("backward", self, gradient, retain_graph)

    def detach(self) -> Tensor:
        """The same values outside any graph, wanting no gradient."""
        return detached(self)

    def value(self, coordinate: IntTuple) -> Scalar:
        """The value at ``coordinate``."""
        return self._carrier.get_value(self._offset + self._layout.index(coordinate))

    def item(self) -> Scalar:
        """The value of a tensor of size 1.

        Raises:
            ValueError: there are several.
        """
        if self.size() != 1:
            raise ValueError(
                f"item: this {self.describe()} has {self.size()} values, not one; use value(coordinate)"
            )
        return self._carrier.get_value(self._offset)

    def tolist(self) -> list[Scalar]:
        """All values in the order of coordinates, first mode fastest."""
        return registry.call("tolist", self)

    def describe(self) -> str:
        """Type, shape and carrier in a few words, for messages."""
        return f"{self.dtype()} tensor of shape {self.shape.extents} on {type(self._carrier).__name__}"

    def __add__(self, other: Any) -> Tensor:
        return registry.call("add", self, other)

    def __radd__(self, other: Any) -> Tensor:
        return registry.call("add", other, self)

    def __sub__(self, other: Any) -> Tensor:
        return registry.call("sub", self, other)

    def __rsub__(self, other: Any) -> Tensor:
        return registry.call("sub", other, self)

    def __mul__(self, other: Any) -> Tensor:
        return registry.call("mul", self, other)

    def __rmul__(self, other: Any) -> Tensor:
        return registry.call("mul", other, self)

    def __truediv__(self, other: Any) -> Tensor:
        return registry.call("div", self, other)

    def __rtruediv__(self, other: Any) -> Tensor:
        return registry.call("div", other, self)

    def __neg__(self) -> Tensor:
        return registry.call("neg", self)

    def __getitem__(self, key: Any) -> Tensor:
        return registry.call("slice", self, key)

    def __bool__(self) -> bool:
        raise TypeError("Tensor: has no truth value; use item() of a tensor of size 1")

    def __repr__(self) -> str:
        return registry.call("repr", self)

    def _repr_html_(self) -> str:
        return registry.call("html", self)


def detached(tensor: Tensor) -> Tensor:
    """A tensor over the same slots that is in no graph and wants no gradient."""
    twin = made(tensor._carrier, tensor._layout)
    twin._offset = tensor._offset
    return twin


def made(carrier: Carrier, layout: Layout) -> Tensor:
    """A tensor from slot 0 over a carrier that is known to fit; in no graph, and wanting no gradient."""
    twin = Tensor.__new__(Tensor)
    twin._carrier, twin._offset, twin._layout = carrier, 0, layout
    twin._differentiable, twin._node, twin._retains, twin.grad = False, None, False, None
    return twin


def attach(tensor: Tensor, node: Any) -> Tensor:
    """Make ``tensor`` the result of ``node``; with None, one that wants no gradient."""
    tensor._node = node
    tensor._differentiable = node is not None
    return tensor
