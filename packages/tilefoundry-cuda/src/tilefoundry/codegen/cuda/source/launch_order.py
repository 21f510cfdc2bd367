"""Which launches may overlap the one before."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.codegen.cuda.statements import (
    EarlyStart,
    Pack,
    PackedOperand,
    Packs,
    TileMatmul,
    TileProducts,
    WidePath,
    inner_statements,
)
from tilefoundry.codegen.cuda.tiles import Part, TileCopy, TileSync, dtype_of
from tilefoundry.ir.tir import MeshScope, Operand, PrimFunction, Store, TirStmt
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.dim import product

__all__ = ["moved_bytes", "overlaps"]

_MOST_BYTES = 256 * 2**20
"""A kernel that moves more runs so long that the gap before it is nothing, while each of its blocks pays for the wait.
Measured on an H200: 16 to 45 us of rows gain 3 to 1 %, 130 us lose 1 %."""

_FEW_ROWS = 8
_MOST_STREAMED_BYTES = 64 * 2**20
"""The same for products of few rows, whose blocks all run at once: placed where others have just left they are spread
less evenly."""


def overlaps(function: PrimFunction) -> bool:
    """Whether blocks of the kernel may be placed while the last blocks of the launch before it still run.

    Blocks that meet at a grid barrier are placed together, and so never early. What only a call knows counts as short;
    a kernel of which that is asked may be long.
    """
    stmts = list(inner_statements(function.body))
    if any(isinstance(stmt, TileSync) and stmt.kind == "grid" for stmt in stmts):
        return False
    if any(isinstance(stmt, EarlyStart) for stmt in stmts):
        return True
    streams = any(isinstance(stmt, (TileMatmul, TileProducts)) and _has_few_rows(stmt) for stmt in stmts)
    return moved_bytes(function) <= (_MOST_STREAMED_BYTES if streams else _MOST_BYTES)


def moved_bytes(function: PrimFunction) -> int:
    """Bytes that all threads of the kernel read and write once, as far as they are static; loops count as one turn."""
    stmts = list(inner_statements(function.body))
    narrow = {
        id(own) for stmt in stmts if isinstance(stmt, WidePath) for own in inner_statements(stmt.narrow)
    }
    threads = max(
        (_static(stmt.mesh.layout.shape) for stmt in stmts if isinstance(stmt, MeshScope)), default=0
    )
    wide = [stmt for stmt in stmts if id(stmt) not in narrow]
    return sum(
        _product_bytes(stmt) if isinstance(stmt, (TileMatmul, TileProducts)) else threads * _own_bytes(stmt)
        for stmt in wide
    )


def _own_bytes(stmt: TirStmt) -> int:
    """Of one thread."""
    if isinstance(stmt, Packs):
        length = stmt.elements or _static((stmt.stop,)) // stmt.threads
        return length * sum(_item_bytes(pack) for pack in (*stmt.loads, *stmt.stores) if pack.once)
    if isinstance(stmt, TileCopy):
        return sum(_part_bytes(part) for part in (stmt.source, stmt.target) if isinstance(part, Part))
    return 0


def _product_bytes(stmt: TileMatmul | TileProducts) -> int:
    """Operands that are computed count as if they lay in memory; of packs, those that differ with every element do."""
    if isinstance(stmt, TileProducts):
        operands, stores = (
            (stmt.lhs, *stmt.rhs),
            [s for s in inner_statements(stmt.body) if isinstance(s, Store)],
        )
        stored = sum(dtype_of(store.buffer).itemsize for store in stores)
    else:
        operands, stored = (stmt.lhs, stmt.rhs), sum(map(_item_bytes, stmt.stores))
    result = _static((*stmt.batches, stmt.rows, stmt.columns)) * stored
    return sum(map(_operand_bytes, operands)) + result


def _operand_bytes(operand: Operand | PackedOperand) -> int:
    assert isinstance(operand.type, TensorType)
    size = _static(operand.type.shape)
    if isinstance(operand, PackedOperand):
        return size * sum(_item_bytes(pack) for pack in operand.loads if pack.once)
    return size * operand.type.dtype.itemsize


def _part_bytes(part: Part) -> int:
    return _static(part.shape) * dtype_of(part.buffer).itemsize if part.space == "gmem" else 0


def _item_bytes(pack: Pack) -> int:
    return dtype_of(pack.name).itemsize


def _has_few_rows(stmt: TileMatmul | TileProducts) -> bool:
    return isinstance(stmt.rows, int) and stmt.rows <= _FEW_ROWS


def _static(shape: Sequence[Dim]) -> int:
    """Elements of a static shape, else 0."""
    size = product(shape)
    return size if isinstance(size, int) else 0
