"""Kernels that are one tile-level product: one ``ops::matmul`` call, whose epilogue is the product's body."""

from __future__ import annotations

from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.prims.schedules import warn_of_schedule
from tilefoundry.codegen.cuda.schedule.contraction import product_blocks, product_threads
from tilefoundry.codegen.cuda.source.products import runs_along_the_first
from tilefoundry.codegen.cuda.statements import TileMatmul, TileProducts
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    BufferView,
    IndexValue,
    Let,
    MeshScope,
    Operand,
    PrimFunction,
    Prologue,
    TileContraction,
    TirStmt,
    walk_tir,
)
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, ceildiv, scalar, type_dim_vars
from tilefoundry.ir.types.dim import floordiv, product
from tilefoundry.ir.types.shard import Layout, Mesh, Topology

__all__ = ["GROUP_THREADS", "MOST_RIGHT", "is_product", "lower_product"]

MOST_RIGHT = 4
"""Right operands whose tiles and sums fit into one block."""

GROUP_THREADS = 256
"""Of a block whose products share a pass, or compute an operand while it is read."""

_FEW_ROWS = 8
"""So few rows read every right element once for all of them."""

_TILE = 64
"""Rows and columns of the smallest tile that such a block takes; it decides how many blocks there are at most."""


def is_product(function: PrimFunction) -> bool:
    """True where a product is all that the kernel does."""
    return len(function.body) == 1 and isinstance(function.body[0], TileContraction)


def lower_product(function: PrimFunction) -> PrimFunction:
    """The kernel, with as many threads as the product's operands make best use of.

    Raises:
        NotFollowed: more right operands than share a pass, or leading axes that only a call decides.
    """
    (stmt,) = function.body
    assert isinstance(stmt, TileContraction)
    warn_of_schedule(f"{function.name}: T.contract", stmt.schedule, "split_k")
    if len(stmt.rhs) > MOST_RIGHT:
        raise NotFollowed(
            f"{function.name}: T.contract shares one pass among {len(stmt.rhs)} right operands; at most {MOST_RIGHT} "
            "fit: give the others a kernel of their own"
        )
    names = Names(_taken(function, stmt))
    batch = Var(scalar(DType.i64), names.fresh("batch"))
    head = _places(function.name, stmt, batch)
    rank = len(stmt.shape)
    operands = [_operand(operand, rank) for operand in stmt.operands]
    lhs, *rights = operands
    if len(rights) == 1 and isinstance(lhs, BufferView) and isinstance(rights[0], BufferView):
        threads = product_threads(lhs, rights[0])
        tile: TileMatmul | TileProducts = _single(stmt, lhs, rights[0], batch, head, names, threads)
        blocks = product_blocks(lhs, rights[0], stmt.shape, threads)
    else:
        threads = GROUP_THREADS
        tile = TileProducts(
            lhs, tuple(rights), stmt.shape[:-2], stmt.shape[-2], stmt.shape[-1], stmt.depth, batch,
            stmt.indices[-2], stmt.indices[-1], stmt.sums, head, stmt.body, threads,
        )  # fmt: skip
        blocks = _group_blocks(stmt, rights[0], threads)
    return _kernel(function, tile, blocks, threads)


def _group_blocks(stmt: TileContraction, right: Operand, threads: int) -> Dim:
    """As many as there are tiles, or runs of columns where rows are few; blocks take them in turn."""
    *batches, rows, columns = stmt.shape
    if not isinstance(rows, int) or rows > _FEW_ROWS:
        return product([*batches, ceildiv(rows, _TILE), ceildiv(columns, _TILE)])
    along_k = right.strides[-2] == 1 if isinstance(right, BufferView) else runs_along_the_first(right)
    return product([*batches, ceildiv(columns, threads // 32 if along_k else 32)])


def _single(
    stmt: TileContraction, lhs: BufferView, rhs: BufferView, batch: Var, head: tuple[TirStmt, ...], names: Names,
    threads: int,
) -> TileMatmul:  # fmt: skip
    first, slot = (Var(scalar(DType.i64), names.fresh(name)) for name in ("first", "slot"))
    *_, row, element = stmt.indices
    return TileMatmul(
        lhs, rhs, stmt.shape[:-2], stmt.shape[-2], stmt.shape[-1], batch, row, first, slot, element, stmt.sums[0],
        head, (), (), stmt.body, 1, (), (), threads,
    )  # fmt: skip


def _kernel(
    function: PrimFunction, tile: TileMatmul | TileProducts, blocks: Dim, threads: int
) -> PrimFunction:
    at_least = max(blocks, 1) if isinstance(blocks, int) else blocks
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
    taken |= {index.name for o in stmt.operands if isinstance(o, Prologue) for index in o.indices}
    return taken | {inner.target.name for inner in walk_tir(stmt.body) if isinstance(inner, Let)}


def _operand(operand: Operand, rank: int) -> Operand:
    """An operand in memory with as many axes as the result; missing and extent-1 leading axes repeat."""
    if not isinstance(operand, BufferView):
        return operand
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
