"""TIR functions as an indented listing, for readers of lowered programs; nothing reads it back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from enum import Enum
from typing import Any

from tilefoundry.inspection.names import Header
from tilefoundry.inspection.values import dim_text, literal_text, type_text
from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.tir import expr as tir_expr
from tilefoundry.ir.tir import stmt as tir
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.types import DimExpr, DimVar, TensorType, dim_vars

__all__ = ["prim_lines"]

INDENT = "    "


def prim_lines(function: PrimFunction, header: Header) -> list[str]:
    """The lines of ``function``, unindented."""
    outputs = len(function.params) - function.output_count
    params = [
        f"{p.name}: {type_text(p.type, header)}{'  # written' if i >= outputs else ''}"
        for i, p in enumerate(function.params)
    ]
    lines = [f"@{header.name('prim_func', 'tilefoundry')}", f"def {function.name}("]
    lines += [
        f"{INDENT}{param.replace('  #', ',  #') if '  #' in param else param + ','}" for param in params
    ]
    writer = _Writer(header)
    return [*lines, "):", *(INDENT + line for line in writer.block(function.body))]


class _Writer:
    """Writes statements; loop variables and lets are spelled by name, DimVars through the header."""

    def __init__(self, header: Header) -> None:
        self._header = header

    def block(self, stmts: Iterable[Any]) -> list[str]:
        return [line for stmt in stmts for line in self._stmt(stmt)] or ["pass"]

    def _stmt(self, stmt: Any) -> list[str]:
        head = _HEADS.get(type(stmt), _Writer._generic)(self, stmt)
        inner = tir.bodies(stmt)
        if not inner:
            return [head]
        lines = [head]
        for i, body in enumerate(inner):
            if i and body:
                lines.append("else:")
            if body or not i:
                lines += [INDENT + line for line in self.block(body)]
        return lines

    def text(self, value: Any) -> str:
        """An expression, dim, or plain value."""
        if isinstance(value, Expr):
            return self._expr(value)
        if isinstance(value, (DimVar, DimExpr)):
            return self._dim(value)
        if isinstance(value, (bool, int, float)):
            return literal_text(value, self._header)
        if isinstance(value, Enum):
            return str(value.value)
        if isinstance(value, (tuple, list)):
            return f"({', '.join(map(self.text, value))}{',' if len(value) == 1 else ''})"
        return str(value)

    def _dim(self, dim: Any) -> str:
        # Extents of the function and loop variables alike are scalars here, so no DimVar is declared.
        names = [var.name for var in dim_vars(dim)]
        for name in names:
            self._header.push_index(name, name)
        text = dim_text(dim, self._header)
        for name in dict.fromkeys(names):
            self._header.pop_index(name)
        return text

    def _expr(self, value: Expr) -> str:
        if isinstance(value, Var):
            return value.name
        if isinstance(value, Constant):
            return literal_text(value.value, self._header)
        if isinstance(value, tir_expr.Load):
            return f"{value.buffer.name}[{self.text(value.index)}]"
        if isinstance(value, tir_expr.IndexValue):
            return self.text(value.value)
        if isinstance(value, tir_expr.Apply):
            attrs = [f"{name}={self.text(given)}" for name, given in value.attrs]
            return f"{value.op}({', '.join([*map(self.text, value.args), *attrs])})"
        if isinstance(value, tir_expr.BufferView):
            shape = value.type.shape if isinstance(value.type, TensorType) else ()
            return f"{value.buffer.name}[{self.text(value.offset)}; {self.text(shape)}:{self.text(value.strides)}]"
        return self._generic(value)

    def _generic(self, value: Any) -> str:
        nested = {"body", "then", "orelse", "alternatives", "type"}
        parts = [
            f"{f.name}={self.text(getattr(value, f.name))}" for f in fields(value) if f.name not in nested
        ]
        return f"{type(value).__name__.lower()}({', '.join(parts)})"

    def _for(self, stmt: tir.For) -> str:
        extent = ", ".join(self.text(part) for part in (stmt.start, stmt.stop, stmt.step))
        return f"for {stmt.index.name} in {stmt.kind}({extent}):"

    def _parallel(self, stmt: tir.Parallel) -> str:
        pieces = f"{stmt.begin.name}, {stmt.end.name}"
        return f"for {pieces} in parallel({self.text(stmt.extent)}, cost={self.text(stmt.cost)}):"

    def _evaluate(self, stmt: tir.Evaluate) -> str:
        attrs = [f"{name}={self.text(given)}" for name, given in stmt.attrs]
        return f"{stmt.op}({', '.join([*map(self.text, stmt.args), *attrs])})"

    def _allocate(self, stmt: tir.Allocate) -> str:
        dtype = stmt.buffer.type.dtype if isinstance(stmt.buffer.type, TensorType) else "?"
        return f"{stmt.buffer.name} = allocate({dtype}, {self.text(stmt.size)})"

    def _launch(self, stmt: tir.Launch) -> str:
        given = [("grid", stmt.grid), ("block", stmt.block), *stmt.attributes]
        attrs = "".join(f", {name}={self.text(value)}" for name, value in given if value not in ((), None))
        return f"launch {stmt.callee}({', '.join(map(self.text, stmt.args))}{attrs})"


_HEADS: dict[type, Callable[[_Writer, Any], str]] = {
    tir.Comment: lambda w, s: f"# {s.text}",
    tir.Let: lambda w, s: f"{s.target.name} = {w.text(s.value)}",
    tir.Accumulator: lambda w, s: f"{s.target.name} = identity({s.kind.value})",
    tir.Accumulate: lambda w, s: f"{s.target.name} = {s.kind.value}({s.target.name}, {w.text(s.value)})",
    tir.Store: lambda w, s: f"{s.buffer.name}[{w.text(s.index)}] = {w.text(s.value)}",
    tir.Allocate: _Writer._allocate,
    tir.For: _Writer._for,
    tir.Parallel: _Writer._parallel,
    tir.While: lambda w, s: f"while {w.text(s.condition)}:",
    tir.If: lambda w, s: f"if {w.text(s.condition)}:",
    tir.MeshScope: lambda w, s: f"with {s.mesh} as {s.name}:",
    tir.Evaluate: _Writer._evaluate,
    tir.Launch: _Writer._launch,
    tir.Abort: lambda w, s: f"abort({w.text(s.condition)}, {s.kind}, {s.message!r})",
    tir.Return: lambda w, s: "return",
    tir.Contraction: lambda w, s: w._generic(s) + ":",
    tir.Guard: lambda w, s: w._generic(s) + ":",
    tir.DispatchCall: lambda w, s: (
        f"dispatch on {w.text(s.subject)}: " + ", ".join(str(p) for p, _ in s.alternatives)
    ),
}
