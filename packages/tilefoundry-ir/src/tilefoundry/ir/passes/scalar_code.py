"""Pieces of scalar TIR: typed applications, loops, and the elements of operands."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.tir import Apply, BufferView, For, Load, Operand, TirStmt, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, bounds, scalar

__all__ = ["apply", "cast", "element", "index_dim", "integer", "loop", "number"]


def apply(op: str, *args: Expr) -> Apply:
    """The scalar op ``op``, typed: comparisons give bool, the others the dtype of the last operand."""
    type_ = scalar(DType.bool_) if op.startswith("cmp_") else args[-1].type
    return Apply(type_, op, args)


def number(value: float, dtype: DType) -> Constant:
    """``value`` as a literal of ``dtype``."""
    return Constant(scalar(dtype), value)


def integer(value: int) -> Constant:
    """``value`` as an i64 literal."""
    return Constant(scalar(DType.i64), value)


def index_dim(index: Var, extent: Dim) -> DimVar:
    """The dim that a loop over ``extent`` gives its index."""
    return DimVar(index.name, 0, max(bounds(extent)[1], 1))


def loop(index: Var, extent: Dim, body: Sequence[TirStmt]) -> For:
    """``for index in range(extent)``."""
    return For(index, 0, extent, tuple(body))


def element(operand: Operand, place: Sequence[Dim], dtype: DType) -> Expr:
    """The operand's element at ``place`` as a scalar of ``dtype``; missing and extent-1 leading axes repeat."""
    assert isinstance(operand.type, TensorType)
    shape = operand.type.shape
    at = [0 if extent == 1 else i for i, extent in zip(place[len(place) - len(shape) :], shape, strict=True)]
    if isinstance(operand, BufferView):
        index: Dim = operand.offset
        for position, stride in zip(at, operand.strides, strict=True):
            index = index + position * stride
        return cast(Load.of(operand.buffer, index), dtype)
    held = operand.type.dtype
    # A cast to a small float rounds and leaves the value in its compute type.
    rounded = Apply(scalar(compute_dtype(held)), "cast", (operand.at(at),), (("dtype", held),))
    return cast(rounded, dtype)


def cast(value: Expr, dtype: DType) -> Expr:
    """``value`` as a scalar of ``dtype``."""
    if value.type == scalar(dtype):
        return value
    return Apply(scalar(compute_dtype(dtype)), "cast", (value,), (("dtype", dtype),))
