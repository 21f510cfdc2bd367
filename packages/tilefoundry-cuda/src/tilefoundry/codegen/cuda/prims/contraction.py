"""Kernels that are one tile-level product: one ``ops::matmul`` call, whose epilogue is the product's body."""

from __future__ import annotations

import warnings

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed, PlacementWarning
from tilefoundry.codegen.cuda.schedule.contraction import product_blocks, product_threads
from tilefoundry.codegen.cuda.statements import TileMatmul
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    BufferView,
    IndexValue,
    Let,
    MeshScope,
    Operand,
    PrimFunction,
    TileContraction,
    TileSchedule,
    TirStmt,
    walk_tir,
)
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar, type_dim_vars
from tilefoundry.ir.types.dim import floordiv
from tilefoundry.ir.types.shard import Layout, Mesh, Topology

__all__ = ["is_product", "lower_product"]


def is_product(function: PrimFunction) -> bool:
    """True where a product is all that the kernel does."""
    return len(function.body) == 1 and isinstance(function.body[0], TileContraction)


def lower_product(function: PrimFunction) -> PrimFunction:
    """The kernel, with as many threads as the product's operands make best use of.

    Raises:
        NotFollowed: several right operands, a prologue, or leading axes that only a call decides.
    """
    (stmt,) = function.body
    assert isinstance(stmt, TileContraction)
    if stmt.schedule != TileSchedule():
        message = f"{function.name}: the runtime chooses tiles, stages and splits of T.contract itself; leave them out"
        warnings.warn(message, PlacementWarning, stacklevel=2)
    rank = len(stmt.shape)
    lhs, rhs = (
        _operand(function.name, operand, rank) for operand in (stmt.lhs, _single(function.name, stmt))
    )
    threads = product_threads(lhs, rhs)
    blocks = product_blocks(lhs, rhs, stmt.shape, threads)
    at_least = max(blocks, 1) if isinstance(blocks, int) else blocks
    names = Names(_taken(function, stmt))
    batch, first, slot = (Var(scalar(DType.i64), names.fresh(name)) for name in ("batch", "first", "slot"))
    head = _places(function.name, stmt, batch)
    *_, row, element = stmt.indices
    tile = TileMatmul(
        lhs, rhs, stmt.shape[:-2], stmt.shape[-2], stmt.shape[-1], batch, row, first, slot, element, stmt.sums[0],
        head, (), (), stmt.body, 1, (), (), threads,
    )  # fmt: skip
    levels = (Topology("cta", at_least), Topology("thread", threads))
    mesh = Mesh(levels, Layout((at_least, threads)), ("b", "t"))
    extents = dict.fromkeys(var for param in function.params for var in type_dim_vars(param.type))
    params = (
        *(Var(TensorType((), p.type.dtype), p.name) for p in function.params),  # type: ignore[attr-defined]  # tensors
        *(Var(scalar(DType.i64), var.name, is_const=True) for var in extents),
    )
    return PrimFunction(function.name, params, (MeshScope("launch", mesh, (tile,)),), 0)  # type: ignore[arg-type]  # a CUDA statement


def _taken(function: PrimFunction, stmt: TileContraction) -> set[str]:
    taken = {param.name for param in function.params} | {var.name for var in (*stmt.indices, *stmt.sums)}
    taken |= {var.name for param in function.params for var in type_dim_vars(param.type)}
    return taken | {inner.target.name for inner in walk_tir(stmt.body) if isinstance(inner, Let)}


def _single(name: str, stmt: TileContraction) -> Operand:
    if len(stmt.rhs) != 1:
        raise NotFollowed(
            f"{name}: T.contract shares one pass among {len(stmt.rhs)} right operands; give each a kernel"
        )
    return stmt.rhs[0]


def _operand(name: str, operand: Operand, rank: int) -> BufferView:
    """The operand with as many axes as the result; missing and extent-1 leading axes repeat."""
    if not isinstance(operand, BufferView):
        raise NotFollowed(
            f"{name}: an operand of T.contract has a prologue; store its elements to a buffer first"
        )
    assert isinstance(operand.type, TensorType)
    lead = rank - operand.type.rank
    shape: tuple[Dim, ...] = (*(1,) * lead, *operand.type.shape)
    strides: tuple[Dim, ...] = (*(0,) * lead, *operand.strides)
    batch = [0 if dim == 1 else step for dim, step in zip(shape[:-2], strides[:-2], strict=True)]
    return BufferView(
        TensorType(shape, operand.type.dtype), operand.buffer, operand.offset, (*batch, *strides[-2:])
    )


def _places(name: str, stmt: TileContraction, batch: Var) -> tuple[TirStmt, ...]:
    """The leading indices from the number of the matrix, the last axis fastest."""
    rest: Dim = DimVar(batch.name, 0, 2**62)
    head: list[TirStmt] = []
    axes = list(zip(stmt.indices[:-2], stmt.shape[:-2], strict=True))
    for index, extent in reversed(axes[1:]):
        if not isinstance(extent, int):
            raise NotFollowed(
                f"{name}: the leading extent {extent} of T.contract must be static; the first may be dynamic"
            )
        outer = floordiv(rest, extent)
        head.append(Let(index, IndexValue.of(rest - outer * extent)))
        rest = outer
    if axes:
        head.append(Let(axes[0][0], IndexValue.of(rest)))
    return tuple(head)
