"""TIR functions as ``@prim_func`` text.

What an author can write reads back to an equal function. Statements that only lowering makes (contractions,
slabs, guards, dispatch) are written in the same manner for readers; the parser refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

from tilefoundry.inspection.names import Header
from tilefoundry.inspection.tir_exprs import ExprText
from tilefoundry.inspection.values import type_text, value_text
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.tir import stmt as tir
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.tir.tiles import Prologue, TileAttention, TileContraction
from tilefoundry.ir.types import TensorType

__all__ = ["prim_lines", "tir_names"]

INDENT = "    "

# Where the operand that an op writes stands in a call; a statement holds it last.
_WRITTEN_AT = {"fill": 0, "reduce": 1, "mma": 0}


def prim_lines(function: PrimFunction, header: Header) -> list[str]:
    """The lines of ``function``, unindented."""
    params = [
        f"{p.name}: {type_text(p.type, header, 'ConstTensor' if p.is_const else 'Tensor')}"
        for p in function.params
    ]
    head = f"def {function.name}({', '.join(params)}):"
    if len(head) > 100:
        lines = [f"def {function.name}(", *(f"{INDENT}{param}," for param in params), "):"]
    else:
        lines = [head]
    body = _Writer(header, tir_names(function)).block(function.body)
    return [f"@{header.name('prim_func', 'tilefoundry')}", *lines, *(INDENT + line for line in body)]


def tir_names(function: PrimFunction) -> set[str]:
    """Every name that the function binds: parameters, scalars, buffers, indices, meshes."""
    found = {param.name for param in function.params}
    for stmt in tir.walk_tir(function.body):
        for f in fields(stmt):
            value = getattr(stmt, f.name)
            if isinstance(value, Var) and f.name in _BINDS:
                found.add(value.name)
        if isinstance(stmt, tir.MeshScope):
            found.add(stmt.name)
        if isinstance(stmt, (TileContraction, TileAttention)):
            prologues = [operand.indices for operand in stmt.operands if isinstance(operand, Prologue)]
            found.update(var.name for group in (stmt.indices, stmt.sums, *prologues) for var in group)
    return found


_BINDS = frozenset(
    {
        *("target", "buffer", "index", "begin", "end", "fault", "accumulator", "pitch", "batch"),
        *("row_begin", "row_end", "column_begin", "column_end"),
    }
)


class _Writer:
    """Writes the statements of one function."""

    def __init__(self, header: Header, local_names: set[str]) -> None:
        self._header = header
        self._exprs = ExprText(header, local_names)
        self._text = self._exprs.text

    def block(self, stmts: Iterable[Any]) -> list[str]:
        return [line for stmt in stmts for line in self._stmt(stmt)] or ["pass"]

    def _stmt(self, stmt: Any) -> list[str]:
        if isinstance(stmt, tir.MeshScope):
            return self._scope(stmt)
        write = _HEADS.get(type(stmt))
        head = self._exprs.generic(stmt) if write is None else write(self, stmt)
        inner = tir.bodies(stmt)
        if not inner:
            return [head]
        lines = [head if head.endswith(":") else head + ":"]
        for i, body in enumerate(inner):
            if i and body:
                lines.append("else:")
            if body or not i:
                lines += [INDENT + line for line in self.block(body)]
        return lines

    def _scope(self, scope: tir.MeshScope) -> list[str]:
        head = f"with {value_text(scope.mesh, self._header)} as {scope.name}:"
        self._header.push_scope(scope.name, scope.mesh)
        inner = self.block(scope.body)
        self._header.pop_scope()
        return [head, *(INDENT + line for line in inner)]

    def _call(self, name: str, args: Iterable[str], attrs: Iterable[tuple[str, Any]]) -> str:
        given = [*args, *(f"{key}={self._exprs.attr(value)}" for key, value in attrs)]
        return f"{self._header.name('T')}.{name}({', '.join(given)})"

    def _for(self, stmt: tir.For) -> str:
        start, stop, step = map(self._text, (stmt.start, stmt.stop, stmt.step))
        if stmt.kind == "vector" and (start, step) == ("0", "1"):
            return f"for {stmt.index.name} in {self._call('vectorized', [stop], ())}:"
        parts = (
            [stop] if (start, step) == ("0", "1") else [start, stop] if step == "1" else [start, stop, step]
        )
        kind = "range" if stmt.kind == "serial" else stmt.kind
        return f"for {stmt.index.name} in {kind}({', '.join(parts)}):"

    def _parallel(self, stmt: tir.Parallel) -> str:
        over = self._call("parallel", [self._text(stmt.extent), self._text(stmt.cost)], ())
        return f"for {stmt.begin.name}, {stmt.end.name} in {over}:"

    def _evaluate(self, stmt: tir.Evaluate) -> str:
        args = [self._text(arg) for arg in stmt.args]
        at = _WRITTEN_AT.get(stmt.op)
        if at is not None and args:
            args.insert(at, args.pop())
        return self._call(stmt.op, args, stmt.attrs)

    def _allocate(self, stmt: tir.Allocate) -> str:
        if isinstance(stmt.buffer.type, TensorType) and stmt.buffer.type.size == stmt.size:
            made = self._call("alloc_tensor", [type_text(stmt.buffer.type, self._header)], ())
        else:
            made = f"allocate({stmt.buffer.type}, {self._text(stmt.size)})"
        return f"{stmt.buffer.name} = {made}"

    def _accumulator(self, stmt: tir.Accumulator) -> str:
        dtype = stmt.target.type.dtype.name if isinstance(stmt.target.type, TensorType) else "?"
        made = self._call("accumulator", map(self._exprs.attr, (stmt.kind, dtype)), ())
        return f"{stmt.target.name} = {made}"

    def _contract(self, stmt: TileContraction) -> str:
        rhs = self._text(stmt.rhs[0]) if len(stmt.rhs) == 1 else f"({', '.join(map(self._text, stmt.rhs))})"
        return self._tiles(stmt, "contract", [self._text(stmt.lhs), rhs], {})

    def _attention(self, stmt: TileAttention) -> str:
        operands = [*stmt.operands, *(() if stmt.kv_len is None else (stmt.kv_len,))]
        attrs = {
            "scale": stmt.scale,
            **({"causal": True} if stmt.causal else {}),
            **{name: value for name in ("window", "softcap") if (value := getattr(stmt, name)) is not None},
        }
        return self._tiles(stmt, "attention", map(self._text, operands), attrs)

    def _tiles(
        self, stmt: TileContraction | TileAttention, name: str, args: Iterable[str], attrs: dict[str, Any]
    ) -> str:
        schedule, split = stmt.schedule, "split_k" if name == "contract" else "split_kv"
        asked = (("tile", schedule.tile, None), ("stages", schedule.stages, None))
        asked += (("cluster", schedule.cluster, (1, 1)), (split, schedule.split, 1))
        asked += (("persistent", schedule.persistent, False),)
        given = {key: value for key, value, default in asked if value != default}
        names = ", ".join(var.name for var in (*stmt.indices, *stmt.sums))
        return f"for {names} in {self._call(name, args, {**attrs, **given}.items())}:"

    def _launch(self, stmt: tir.Launch) -> str:
        # A launch's extents are read off its buffers again.
        buffers = [self._text(arg) for arg in stmt.args if self._exprs.is_buffer(arg)]
        shapes = [(name, value) for name, value in (("grid", stmt.grid), ("block", stmt.block)) if value]
        return self._call("launch", [stmt.callee, *buffers], [*shapes, *stmt.attributes])

    def _abort(self, stmt: tir.Abort) -> str:
        kind = () if stmt.kind == "ValueError" else (("kind", stmt.kind),)
        return self._call("abort", [self._text(stmt.condition), self._exprs.attr(stmt.message)], kind)

    def _store(self, stmt: tir.Store) -> str:
        return f"{self._exprs.element(stmt.buffer, stmt.index)} = {self._text(stmt.value)}"

    def _dispatch(self, stmt: tir.DispatchCall) -> str:
        return f"dispatch({self._text(stmt.subject)}, {', '.join(str(p) for p, _ in stmt.alternatives)})"


_HEADS: dict[type, Callable[[_Writer, Any], str]] = {
    tir.Comment: lambda w, s: f"# {s.text}",
    tir.Let: lambda w, s: f"{s.target.name} = {w._text(s.value)}",
    tir.Accumulator: _Writer._accumulator,
    tir.Accumulate: lambda w, s: f"{s.target.name} += {w._text(s.value)}",
    tir.Store: _Writer._store,
    tir.Allocate: _Writer._allocate,
    tir.For: _Writer._for,
    tir.Parallel: _Writer._parallel,
    tir.While: lambda w, s: f"while {w._text(s.condition)}:",
    tir.If: lambda w, s: f"if {w._text(s.condition)}:",
    tir.Evaluate: _Writer._evaluate,
    tir.Launch: _Writer._launch,
    tir.Abort: _Writer._abort,
    tir.Return: lambda w, s: "return",
    tir.DispatchCall: _Writer._dispatch,
    TileContraction: _Writer._contract,
    TileAttention: _Writer._attention,
}
