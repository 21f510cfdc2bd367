"""Nested statement lists of a statement-level program, and the names that they bind."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tilefoundry.dsl.prim.context import PrimContext
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.types import DimVar, Type, scalar

__all__ = ["bind_indices", "free_indices", "indexed_block", "read_block"]

Index = tuple[str, int, int]
"""Name, smallest value, and the end of the values."""


def read_block(ctx: PrimContext, body: list[ast.stmt]) -> tuple[Any, ...]:
    """The statements of ``body``; names bound inside end with it, those around it stay as they are."""
    before, around = dict(ctx.locals), ctx.around
    ctx.around = frozenset(before)
    with ctx.collecting() as stmts:
        ctx.run(body)
    ctx.locals, ctx.around = before, around
    return tuple(stmts)


def indexed_block(
    ctx: PrimContext, body: list[ast.stmt], indices: Sequence[Index], values: Sequence[tuple[str, Type]] = ()
) -> tuple[tuple[Var, ...], tuple[Var, ...], tuple[Any, ...]]:
    """Read ``body`` with ``indices`` and scalars bound, which end with it: the indices, the scalars, the statements."""
    before = dict(ctx.locals)
    made = bind_indices(ctx, indices)
    given = tuple(Var(type_, ctx.names.take(name)) for name, type_ in values)
    ctx.locals.update({name: var for (name, _), var in zip(values, given, strict=True)})
    stmts = read_block(ctx, body)
    ctx.locals = before
    return free_indices(ctx, made), given, stmts


def bind_indices(ctx: PrimContext, indices: Sequence[Index]) -> list[DimVar]:
    """Make each a dim that the statements to come may use."""
    made = [DimVar(ctx.names.take(name), low, max(high, low + 1)) for name, low, high in indices]
    for (name, _, _), index in zip(indices, made, strict=True):
        ctx.locals[name] = index
        ctx.dims.add(index)
        ctx.indices[index.name] = Var(scalar("i64"), index.name)
    return made


def free_indices(ctx: PrimContext, made: Sequence[DimVar]) -> tuple[Var, ...]:
    """End what ``bind_indices`` made; the variables of the loop."""
    for index in made:
        ctx.dims.discard(index)
    return tuple(ctx.indices.pop(index.name) for index in made)
