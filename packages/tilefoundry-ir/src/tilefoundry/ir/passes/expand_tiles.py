"""Spell tile-level products and attention out as loops over scalars, for targets without an engine for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes.copying import Names
from tilefoundry.ir.passes.scalar_code import apply, element, index_dim, integer, loop, number
from tilefoundry.ir.tir import (
    Abort,
    Accumulate,
    Accumulator,
    Allocate,
    BufferView,
    DispatchCall,
    If,
    IndexValue,
    Let,
    Load,
    PrimFunction,
    Prologue,
    Store,
    TileAttention,
    TileContraction,
    TirStmt,
    walk_tir,
)
from tilefoundry.ir.types import Dim, DType, TensorType, scalar, type_dim_vars

__all__ = ["ExpandTiles", "names_in"]


@dataclass(frozen=True, slots=True)
class ExpandTiles:
    """Before: TIR functions. After: the same values without ``TileContraction`` and ``TileAttention``.

    Every element is computed alone and in order, so schedules say nothing any more; HIR functions stay as they
    are.
    """

    def run(self, module: Module) -> Module:
        """``module`` with loops in the place of tile-level statements, its children's included."""
        return Module(
            module.name,
            tuple(_expanded(f) if isinstance(f, PrimFunction) else f for f in module.functions),
            module.entry,
            tuple(self.run(child) for child in module.modules),
            module.target,
            module.topologies,
            module.metadata,
            module.methods,
        )


def _expanded(function: PrimFunction) -> PrimFunction:
    writer = _Expander(Names(names_in(function)))
    return replace(function, body=writer.block(function.body))


def names_in(function: PrimFunction) -> set[str]:
    """Every name of the function: parameters, extents, scalars, buffers, indices."""
    found = {param.name for param in function.params}
    found |= {var.name for param in function.params for var in type_dim_vars(param.type)}
    for stmt in walk_tir(function.body):
        parts = [getattr(stmt, f.name) for f in fields(stmt)]
        flat = [item for part in parts for item in (part if isinstance(part, tuple) else (part,))]
        found |= {item.name for item in flat if isinstance(item, Var)}
        if isinstance(stmt, (TileContraction, TileAttention)):
            found |= {v.name for o in stmt.operands if isinstance(o, Prologue) for v in o.indices}
    return found


@dataclass(slots=True)
class _Expander:
    """Writes the loops of one function."""

    names: Names

    def block(self, stmts: Sequence[TirStmt]) -> tuple[TirStmt, ...]:
        return tuple(out for stmt in stmts for out in self._stmt(stmt))

    def _stmt(self, stmt: Any) -> tuple[TirStmt, ...]:
        if isinstance(stmt, TileContraction):
            return self._contraction(stmt)
        if isinstance(stmt, TileAttention):
            return self._attention(stmt)
        if isinstance(stmt, If):
            return (replace(stmt, then=self.block(stmt.then), orelse=self.block(stmt.orelse)),)
        if isinstance(stmt, DispatchCall):
            return (replace(stmt, alternatives=tuple((p, self.block(b)) for p, b in stmt.alternatives)),)
        if hasattr(stmt, "body"):
            return (replace(stmt, body=self.block(stmt.body)),)
        return (stmt,)

    def _fresh(self, name: str, dtype: DType) -> Var:
        return Var(scalar(dtype), self.names.fresh(name))

    def _sum(
        self, factors: tuple[Any, Any], places: tuple[tuple[Dim, ...], ...], k: Var, depth: Dim, total: Var
    ) -> list:
        """``total`` becomes the sum over ``k`` of the products of both operands' elements."""
        dtype = total.type.dtype  # type: ignore[attr-defined]  # a scalar
        product = apply("mul", *(element(o, place, dtype) for o, place in zip(factors, places, strict=True)))
        joined = Accumulate(total, ReduceKind.SUM, product)
        return [Accumulator(total, ReduceKind.SUM), loop(k, depth, [joined])]

    def _contraction(self, stmt: TileContraction) -> tuple[TirStmt, ...]:
        dims = [index_dim(var, extent) for var, extent in zip(stmt.indices, stmt.shape, strict=True)]
        *batch, row, column = dims
        body: list[TirStmt] = []
        for total, right in zip(stmt.sums, stmt.rhs, strict=True):
            k = self._fresh("k", DType.i64)
            depth = index_dim(k, stmt.depth)
            held = self._fresh(f"{total.name}_sum", total.type.dtype)  # type: ignore[attr-defined]  # a scalar
            places = ((*batch, row, depth), (*batch, depth, column))
            body += [*self._sum((stmt.lhs, right), places, k, stmt.depth, held), Let(total, held)]
        return _nested(stmt.indices, stmt.shape, [*body, *stmt.body])

    def _attention(self, stmt: TileAttention) -> tuple[TirStmt, ...]:
        dtype = stmt.output.type.dtype  # type: ignore[attr-defined]  # a scalar
        q, k = (o.type.shape for o in (stmt.q, stmt.k))  # type: ignore[attr-defined]  # tensors
        batch, head, query = (index_dim(v, e) for v, e in zip(stmt.indices[:3], stmt.shape[:3], strict=True))
        group: Dim = head
        heads, shared = q[1], k[1]
        if isinstance(heads, int) and isinstance(shared, int):  # heads that only a call knows are not shared
            group = head // (heads // shared)
        length, start = self._length(stmt, batch, k[2])
        scores = Var(TensorType((k[2],), dtype), self.names.fresh("scores"))
        top, total = self._fresh("top", dtype), self._fresh("total", dtype)
        body = [*start, Allocate(scores, k[2]), Accumulator(top, ReduceKind.MAX)]
        body.append(self._scores(stmt, (batch, head, group, query), length, scores, top))
        body += [Accumulator(total, ReduceKind.SUM), self._weights(k[2], scores, top, total)]
        body.append(self._outputs(stmt, (batch, group), scores, total))
        return _nested(stmt.indices[:3], stmt.shape[:3], body)

    def _length(self, stmt: TileAttention, batch: Dim, keys: Dim) -> tuple[Expr, list[TirStmt]]:
        """How many keys there are, and the statements that read and check it."""
        if stmt.kv_len is None:
            return IndexValue.of(keys), []
        held = self._fresh("kv_len", DType.i64)
        shape = stmt.kv_len.type.shape  # type: ignore[attr-defined]  # a tensor
        at = (batch,) if shape else ()
        read = Let(held, element(stmt.kv_len, at, DType.i64))
        wrong = apply(
            "logical_or", apply("cmp_lt", held, integer(0)), apply("cmp_gt", held, IndexValue.of(keys))
        )
        return held, [read, Abort(wrong, "ValueError", "T.attention: kv_len is outside of the keys")]

    def _scores(
        self, stmt: TileAttention, place: tuple[Dim, Dim, Dim, Dim], length: Expr, scores: Var, top: Var
    ) -> TirStmt:
        batch, head, group, query = place
        q, keys = stmt.q.type.shape, stmt.k.type.shape[2]  # type: ignore[attr-defined]  # tensors
        dtype = top.type.dtype  # type: ignore[attr-defined]  # a scalar
        t, d = self._fresh("t", DType.i64), self._fresh("d", DType.i64)
        at, along = index_dim(t, keys), index_dim(d, q[3])
        dot, score = self._fresh("dot", dtype), self._fresh("score", dtype)
        places = ((batch, head, query, along), (batch, group, at, along))
        body = self._sum((stmt.q, stmt.k), places, d, q[3], dot)
        scaled: Expr = apply("mul", dot, number(stmt.scale, dtype))
        if stmt.softcap is not None:
            cap = number(stmt.softcap, dtype)
            scaled = apply("mul", cap, apply("tanh", apply("div", scaled, cap)))
        seen = self._visible(stmt, IndexValue.of(at), IndexValue.of(query - q[2]), length)
        body.append(Let(score, apply("select", seen, scaled, number(float("-inf"), dtype))))
        return loop(t, keys, [*body, Store(scores, at, score), Accumulate(top, ReduceKind.MAX, score)])

    def _visible(self, stmt: TileAttention, at: Expr, back: Expr, length: Expr) -> Expr:
        """Key ``at`` exists and the query, which stands ``back`` before the end, may see it."""
        seen = apply("cmp_lt", at, length)
        if not stmt.causal:
            return seen
        position = apply("add", length, back)
        seen = apply("logical_and", seen, apply("cmp_le", at, position))
        if stmt.window is None:
            return seen
        first = apply("sub", position, integer(stmt.window))
        return apply("logical_and", seen, apply("cmp_gt", at, first))

    def _weights(self, keys: Dim, scores: Var, top: Var, total: Var) -> TirStmt:
        dtype = top.type.dtype  # type: ignore[attr-defined]  # a scalar
        t, weight = self._fresh("t", DType.i64), self._fresh("weight", dtype)
        at = index_dim(t, keys)
        hidden = apply("cmp_eq", Load.of(scores, at), number(float("-inf"), dtype))
        raised = apply("exp", apply("sub", Load.of(scores, at), top))
        value = apply("select", hidden, number(0.0, dtype), raised)
        return loop(
            t,
            keys,
            [Let(weight, value), Store(scores, at, weight), Accumulate(total, ReduceKind.SUM, weight)],
        )

    def _outputs(self, stmt: TileAttention, place: tuple[Dim, Dim], scores: Var, total: Var) -> TirStmt:
        dtype = total.type.dtype  # type: ignore[attr-defined]  # a scalar
        t, out = self._fresh("t", DType.i64), self._fresh("weighed", dtype)
        keys = stmt.k.type.shape[2]  # type: ignore[attr-defined]  # a tensor
        along = index_dim(stmt.indices[3], stmt.shape[3])
        held = BufferView(scores.type, scores, 0, (1,))
        body = self._sum(
            (held, stmt.v), ((index_dim(t, keys),), (*place, index_dim(t, keys), along)), t, keys, out
        )
        empty = apply("cmp_eq", total, number(0.0, dtype))
        value = apply("select", empty, number(0.0, dtype), apply("div", out, total))
        return loop(stmt.indices[3], stmt.shape[3], [*body, Let(stmt.output, value), *stmt.body])


def _nested(indices: Sequence[Var], shape: Sequence[Dim], body: Sequence[TirStmt]) -> tuple[TirStmt, ...]:
    out = tuple(body)
    for index, extent in zip(reversed(indices), reversed(shape), strict=True):
        out = (loop(index, extent, out),)
    return out
