"""Expressions of TIR as text of the ``T`` namespace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from tilefoundry.inspection.names import Header
from tilefoundry.inspection.values import dim_text, literal_text, value_text
from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.tir.expr import Apply, BufferView, IndexValue, Load
from tilefoundry.ir.tir.tiles import Prologue
from tilefoundry.ir.types import Dim, DimExpr, DimVar, TensorType, bounds, dim_vars
from tilefoundry.ir.types.shard import c_order
from tilefoundry.ir.types.shard.divide import exact_quotient

__all__ = ["ExprText", "positions"]


class ExprText:
    """Renders expressions; extents named in ``local_names`` are the function's own scalars and indices."""

    def __init__(self, header: Header, local_names: set[str]) -> None:
        self._header = header
        self._local = local_names

    def text(self, value: Any) -> str:
        """An expression, a dim, or a number."""
        if isinstance(value, Expr):
            return self._expr(value)
        if isinstance(value, (int, DimVar, DimExpr)) and not isinstance(value, bool):
            return self.dim(value)
        return self.attr(value)

    def attr(self, value: Any) -> str:
        """A compile-time argument."""
        if isinstance(value, Expr):
            return self._expr(value)
        if isinstance(value, (DimVar, DimExpr)):
            return self.dim(value)
        if isinstance(value, tuple):
            return f"({', '.join(map(self.attr, value))}{',' if len(value) == 1 else ''})"
        try:
            return value_text(value, self._header)
        except TypeError:  # a record that only lowering makes
            return str(value)

    def dim(self, dim: Dim) -> str:
        """An extent or index."""
        names = [var.name for var in dim_vars(dim) if var.name in self._local]
        for name in names:
            self._header.push_index(name, name)
        text = dim_text(dim, self._header)
        for name in names:
            self._header.pop_index(name)
        return text

    def is_buffer(self, value: Any) -> bool:
        """True for a buffer or a view of one."""
        return isinstance(value, (BufferView, Var))

    def element(self, buffer: Var, index: Dim) -> str:
        """``buffer[i, j]`` for the element at a linear index in row-major order."""
        type_ = buffer.type
        if not isinstance(type_, TensorType) or not type_.rank:
            return f"{buffer.name}[{'()' if index == 0 else self.dim(index)}]"
        return f"{buffer.name}[{', '.join(map(self.dim, positions(index, type_.shape)))}]"

    def generic(self, value: Any) -> str:
        """A node that has no spelling of its own: its class and its parts."""
        nested = {"body", "then", "orelse", "alternatives", "type"}
        parts = [
            f"{f.name}={self.text(getattr(value, f.name))}" for f in fields(value) if f.name not in nested
        ]
        return f"{type(value).__name__.lower()}({', '.join(parts)})"

    def _expr(self, value: Expr) -> str:
        if isinstance(value, Var):
            return value.name
        if isinstance(value, Constant):
            return literal_text(value.value, self._header)
        if isinstance(value, Load):
            return self.element(value.buffer, value.index)
        if isinstance(value, IndexValue):
            return self.dim(value.value)
        if isinstance(value, Apply):
            attrs = [f"{name}={self.attr(given)}" for name, given in value.attrs]
            args = ", ".join([*map(self.text, value.args), *attrs])
            return f"{self._header.name('T')}.{value.op}({args})"
        if isinstance(value, BufferView):
            return self._view(value)
        if isinstance(value, Prologue):
            return self._prologue(value)
        return self.generic(value)

    def _prologue(self, value: Prologue) -> str:
        assert isinstance(value.type, TensorType)
        shape, dtype = self.attr(value.type.shape), self.attr(value.type.dtype.name)
        names = ", ".join(index.name for index in value.indices)
        return (
            f"({self.text(value.value)} for {names} in {self._header.name('T')}.elements({shape}, {dtype}))"
        )

    def _view(self, view: BufferView) -> str:
        base, type_ = view.buffer.type, view.type
        assert isinstance(type_, TensorType)
        if type_ == base and view.offset == 0 and view.strides == c_order(type_.shape):
            return view.buffer.name
        shape, strides = (self.attr(tuple(part)) for part in (type_.shape, view.strides))
        offset = "" if view.offset == 0 else f", {self.dim(view.offset)}"
        return f"{self._header.name('T')}.tensor_view({view.buffer.name}, {shape}, {strides}{offset})"


def positions(index: Dim, shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """One position per axis whose row-major linear index is ``index``.

    Each term of the index goes to the outermost axis whose stride divides it, so that ``i * 8 + j`` over
    ``(M, 8)`` is ``(i, j)`` again; where that gives a position below 0, all of it goes to the last axis.
    """
    strides = c_order(tuple(shape))
    found: list[Dim] = [0] * len(shape)
    for term in _terms(index):
        for axis, stride in enumerate(strides):
            quotient = term if stride == 1 else exact_quotient(term, stride) if stride != 0 else None
            if quotient is not None:
                found[axis] = found[axis] + quotient
                break
    if any(bounds(position)[0] < 0 for position in found):
        return (*[0] * (len(shape) - 1), index)
    return tuple(found)


def _terms(dim: Dim) -> list[Dim]:
    if isinstance(dim, DimExpr):
        return [DimExpr((term,)) if term[0] else term[1] for term in dim.terms]
    return [dim] if dim != 0 else []
