"""Expressions of TIR: scalars computed from buffers, and views of buffers.

Scalars are held in their compute type: loading a small float widens it, storing one rounds it. An index is a
dim over the function's extents and the loop variables in scope, in elements from the buffer's start.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.core.exact import exact
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.types import Dim, DType, TensorType, scalar

__all__ = ["Apply", "BufferView", "IndexValue", "Load", "PointerOf", "Verbatim", "compute_dtype"]


def compute_dtype(dtype: DType) -> DType:
    """The type in which values of ``dtype`` are computed: f32 for the small floats, itself otherwise."""
    return DType.f32 if dtype.is_float and dtype is not DType.f64 else dtype


@dataclass(frozen=True, slots=True)
class IndexValue(Expr):
    """A dim as an i64 scalar."""

    value: Dim

    @staticmethod
    def of(value: Dim) -> IndexValue:
        """``value`` with its type."""
        return IndexValue(scalar(DType.i64), value)


@dataclass(frozen=True, slots=True)
class Load(Expr):
    """Element ``index`` of ``buffer``, widened to its compute type."""

    buffer: Var
    index: Dim

    @staticmethod
    def of(buffer: Var, index: Dim) -> Load:
        """The load with its type."""
        assert isinstance(buffer.type, TensorType)
        return Load(scalar(compute_dtype(buffer.type.dtype)), buffer, index)


@dataclass(frozen=True, slots=True)
class Apply(Expr):
    """A scalar function of scalars.

    Attributes:
        op: name in ``tilefoundry.ir.tir.ops.SCALAR_OPS``.
        args: operands.
        attrs: (name, value) pairs, such as the bounds of a clamp.
    """

    op: str
    args: tuple[Expr, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    def __eq__(self, other: object) -> bool:
        """Equal as calls of HIR are: numbers among the attributes by type and spelling."""
        return (
            isinstance(other, Apply)
            and (self.type, self.op, self.args) == (other.type, other.op, other.args)
            and exact(self.attrs) == exact(other.attrs)
        )

    def __hash__(self) -> int:
        return hash((self.type, self.op, self.args, exact(self.attrs)))


@dataclass(frozen=True, slots=True)
class BufferView(Expr):
    """A strided window of a buffer, for the ops that take whole tensors.

    ``type`` gives extents and dtype; ``offset`` and ``strides`` count elements.
    """

    buffer: Var
    offset: Dim
    strides: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class PointerOf(Expr):
    """The address of element ``offset`` of a buffer (``ptr_of``)."""

    buffer: Var
    offset: Dim


@dataclass(frozen=True, slots=True)
class Verbatim(Expr):
    """A compile-time argument as the target's language spells it, such as the geometry of a convolution."""

    text: str

    @staticmethod
    def of(text: str) -> Verbatim:
        """``text`` as an argument; it has no value of its own, so its type is that of a flag."""
        return Verbatim(scalar(DType.bool_), text)
