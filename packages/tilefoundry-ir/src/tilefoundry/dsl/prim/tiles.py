"""``for i, j, total in T.contract(...)``: tile-level products and attention, with an epilogue per element."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt
from typing import Any

from tilefoundry.dsl.context import describe
from tilefoundry.dsl.expressions import EXPRESSIONS
from tilefoundry.dsl.extents import is_extent
from tilefoundry.dsl.literals import constant, is_number
from tilefoundry.dsl.prim.blocks import bind_indices, free_indices, indexed_block
from tilefoundry.dsl.prim.buffers import view
from tilefoundry.dsl.prim.context import PrimContext
from tilefoundry.dsl.prim.scalars import scalar_of
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.tir import Operand, Prologue, TileAttention, TileContraction, TileSchedule, sum_dtype
from tilefoundry.ir.tir.tile_rules import check_body, check_operands
from tilefoundry.ir.tir.tiles import check_split
from tilefoundry.ir.types import Dim, DType, TensorType, bounds, scalar

__all__ = ["TILE_CALLS", "Elements", "read_generator", "read_tiles"]

# Stands in for the output until the loop names it.
_NO_OUTPUT = Var(scalar(DType.f32), "output")


@dataclass(frozen=True, slots=True)
class Elements:
    """``T.elements(shape, dtype)``: what the generator of a prologue runs over."""

    type: TensorType


def _elements(ctx: PrimContext, node: ast.AST, shape: Any, dtype: Any) -> Elements:
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    for extent in extents:
        if not (is_extent(extent) or isinstance(extent, int)):
            raise TypeError(f"T.elements takes a shape and a dtype, got {describe(shape)}")
        ctx.check_dim(extent, node)
    return Elements(TensorType(extents, DType.from_name(dtype)))


def _contract(
    ctx: PrimContext,
    node: ast.AST,
    lhs: Any,
    rhs: Any,
    *,
    tile: Any = None,
    stages: Any = None,
    cluster: Any = (1, 1),
    split_k: Any = 1,
    persistent: Any = False,
) -> TileContraction:
    check_split("split_k", split_k)
    schedule = TileSchedule(_extents(tile), stages, _pair(cluster), split_k, persistent, ctx.place_of(node))
    given = rhs if isinstance(rhs, (tuple, list)) else (rhs,)
    rights = tuple(_operand(ctx, node, operand) for operand in given)
    return TileContraction(_operand(ctx, node, lhs), rights, (), (), schedule, ())


def _attention(
    ctx: PrimContext,
    node: ast.AST,
    q: Any,
    k: Any,
    v: Any,
    kv_len: Any = None,
    *,
    scale: Any = None,
    causal: Any = False,
    window: Any = None,
    softcap: Any = None,
    tile: Any = None,
    stages: Any = None,
    split_kv: Any = 1,
    persistent: Any = False,
) -> TileAttention:
    check_split("split_kv", split_kv)
    schedule = TileSchedule(_extents(tile), stages, (1, 1), split_kv, persistent, ctx.place_of(node))
    query, keys, values = (_operand(ctx, node, operand) for operand in (q, k, v))
    if not isinstance(causal, bool):
        raise TypeError(f"causal= is True or False, got {causal!r}")
    if window is not None and (isinstance(window, bool) or not isinstance(window, int) or window < 1):
        raise TypeError(f"window= is an int above 0, got {describe(window)}")
    if softcap is not None and not (is_number(softcap) and softcap > 0):
        raise TypeError(f"softcap= is a number above 0, got {describe(softcap)}")
    factor = _scale(query) if scale is None else scale
    if not is_number(factor) or isinstance(factor, bool):
        raise TypeError(f"scale= is a number, got {describe(scale)}")
    length = None if kv_len is None else view(ctx, node, kv_len)
    cap = None if softcap is None else float(softcap)
    return TileAttention(
        query, keys, values, length, float(factor), causal, window, cap, (), _NO_OUTPUT, schedule, ()
    )


def _scale(q: Operand) -> float:
    assert isinstance(q.type, TensorType)
    dim = q.type.shape[-1] if q.type.rank else 0
    if not isinstance(dim, int) or not dim:
        raise TypeError(f"q is {q.type}; give scale=, the default 1 / sqrt(dim) needs a static dim")
    return 1.0 / sqrt(dim)


def _operand(ctx: PrimContext, node: ast.AST, value: Any) -> Operand:
    if not isinstance(value, Prologue):
        return view(ctx, node, value)
    if not value.indices:
        return value
    if value.indices[0].name in ctx.prologues:  # indices have names of their own in every operand
        value = value.renamed([ctx.names.take(index.name) for index in value.indices])
    ctx.prologues.add(value.indices[0].name)
    return value


def _extents(tile: Any) -> tuple[int, ...] | None:
    if tile is None:
        return None
    if not isinstance(tile, (tuple, list)):
        raise TypeError(f"tile= is a tuple of ints, one per axis of a tile, got {describe(tile)}")
    return tuple(tile)


def _pair(cluster: Any) -> tuple[int, int]:
    if not isinstance(cluster, (tuple, list)) or len(cluster) != 2:
        raise TypeError(f"cluster= is (rows, columns), two ints such as (2, 1), got {describe(cluster)}")
    return (cluster[0], cluster[1])


def read_generator(ctx: PrimContext, node: ast.GeneratorExp, hint: str | None) -> Any:
    """``(value for i, j in T.elements(shape, dtype))`` is a prologue; any other generator unrolls."""
    (first, *others) = node.generators
    over = ctx.read(first.iter)
    if not isinstance(over, Elements):
        return EXPRESSIONS[ast.GeneratorExp](ctx, node, hint)
    if others or first.ifs or first.is_async:
        raise ctx.error(node, "a prologue is (value for i, j in T.elements(shape, dtype)), without if")
    names = _names(ctx, first.target)
    shape = over.type.shape
    if len(names) != len(shape):
        raise ctx.error(first.target, f"one index per axis of {over.type} is needed, got {len(names)}")
    before = dict(ctx.locals)
    made = bind_indices(ctx, _ranged(names, shape))
    value = ctx.read(node.elt)
    with ctx.pointing_at(node.elt):
        if is_number(value):
            value = constant(value, over.type.dtype)
        found = scalar_of(ctx, node.elt, value)
    ctx.locals = before
    return Prologue(over.type, free_indices(ctx, made), found)


def read_tiles(ctx: PrimContext, node: ast.For, over: TileContraction | TileAttention) -> None:
    """``for <index per axis>, <sum per right operand> in T.contract(...)``, or of ``T.attention``."""
    count = len(over.rhs) if isinstance(over, TileContraction) else 1
    names = _names(ctx, node.target)
    with ctx.pointing_at(node.iter):
        check_operands(over)
        shape = over.shape
    if len(names) != len(shape) + count:
        raise ctx.error(
            node.target,
            f"{len(shape)} indices and {count} sum{'s' * (count > 1)} are named here, of "
            f"[{', '.join(map(str, shape))}], got {len(names)} names",
        )
    for extent in shape:
        ctx.check_dim(extent, node.iter)
    first = over.operands[0].type
    assert isinstance(first, TensorType)
    sums = [(name, scalar(sum_dtype(first.dtype))) for name in names[len(shape) :]]
    indices, totals, body = indexed_block(ctx, node.body, _ranged(names[: len(shape)], shape), sums)
    if isinstance(over, TileContraction):
        stmt: Any = replace(over, indices=indices, sums=totals, body=body)
    else:
        stmt = replace(over, indices=indices, output=totals[0], body=body)
    with ctx.pointing_at(node):
        check_body(stmt)
    ctx.stmts.append(stmt)


def _ranged(names: Sequence[str], shape: Sequence[Dim]) -> list[tuple[str, int, int]]:
    return [(name, 0, bounds(extent)[1]) for name, extent in zip(names, shape, strict=True)]


def _names(ctx: PrimContext, target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in _names(ctx, part)]
    raise ctx.error(target, "indices and sums are names")


TILE_CALLS = {"contract": _contract, "attention": _attention, "elements": _elements}
