"""Statements of CUDA kernels beside those of TIR: pieces of a row per thread, and joining over a block.

Names that generated code fixes: ``V_`` is the number of elements that move together, a template parameter of the
kernel's body; ``piece_`` counts the packs of a thread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilefoundry.codegen.cpu.emit.source import written_buffers
from tilefoundry.codegen.cuda.joined import JoinedWork
from tilefoundry.codegen.cuda.tiles import (
    Part,
    TileContract,
    TileCopy,
    TileFill,
    TileMap,
    TilePad,
    TileReduce,
    TileRotate,
    TileSync,
    tile_bodies,
)
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import BufferView, Operand, Store, TileAttention, TirStmt, walk_tir
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType

__all__ = [
    "BYTES",
    "PIECE",
    "WIDTH",
    "Combine",
    "EarlyStart",
    "Pack",
    "PackByte",
    "PackedOperand",
    "Packs",
    "RegisterArray",
    "TileAttend",
    "TileMatmul",
    "TilePair",
    "TileProducts",
    "WidePath",
    "inner_statements",
]

BYTES = (DType.i8, DType.u8)
"""Types whose packs a computed operand holds in words."""

WIDTH = DimVar("pack_width_", 1, 17)
"""Elements of one pack."""

PIECE = DimVar("pack_piece_", 0, 2**20)
"""Number of a thread's pack."""


@dataclass(frozen=True, slots=True)
class Pack:
    """``V`` neighbours that move as one access.

    Attributes:
        name: the registers that hold it; its dtype is the buffer's.
        buffer: where it lies.
        index: offset of its first element, over ``first`` of the loop.
        once: no other thread of the kernel accesses it.
    """

    name: Var
    buffer: Var
    index: Dim
    once: bool = False


@dataclass(frozen=True, slots=True)
class PackByte(Expr):
    """The 8-bit integer at ``slot`` of a pack as an f32; the value of a ``Let``."""

    pack: Var
    slot: Dim


@dataclass(frozen=True, slots=True)
class Packs:
    """The packs that a thread takes of ``[start, stop)``: pack ``p`` begins at ``start + (p * threads + lane) * V``.

    Attributes:
        first: name of the first element's index in the body.
        slot: name of the position inside the pack, ``0 .. V - 1``.
        element: ``first + slot``.
        lane: the thread's place.
        threads: how many threads share the elements.
        elements: elements per thread where that is a compile-time number: then loads of all packs come first and
            stay in registers; None where the number of turns is known at run time only.
        start, stop: bounds.
        exact: all packs lie inside, so that no bound is looked at.
        loads, stores: packs read before and written after the body.
        body: statements for one element.
        mask: a bool that must hold for stores, or None.
        again: later loops use the packs of this one, which stay in registers.
        held: packs of earlier loops that this one uses.
        staged: packs for later loops lie in shared memory, each thread's where no other reads.
        ahead: packs of later loops, read with the first of this one.
        rereads: the last of several loops over the same memory, which the caches may forget after it.
    """

    first: Var
    slot: Var
    element: Var
    lane: Var
    threads: int
    elements: int | None
    start: Dim
    stop: Dim
    exact: bool
    loads: tuple[Pack, ...]
    stores: tuple[Pack, ...]
    body: tuple[TirStmt, ...]
    mask: Var | None = None
    again: bool = False
    held: tuple[Var, ...] = ()
    staged: bool = False
    ahead: tuple[Pack, ...] = ()
    rereads: bool = False

    @property
    def staged_bytes(self) -> int:
        """Bytes of shared memory that the packs read by this loop take."""
        kinds = [pack.name.type.dtype.itemsize for pack in self.loads if pack.once]  # type: ignore[union-attr]  # tensors
        return sum(kinds) * self.threads * (self.elements or 0) if self.staged else 0


@dataclass(frozen=True, slots=True)
class RegisterArray:
    """Registers of a thread, every one starting at ``value`` (None: not set).

    ``elements`` is a number, or ``V`` for one per position of a pack.
    """

    buffer: Var
    elements: Dim
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class Combine:
    """Join a register of every thread along one axis of the block; all threads take part and get the result.

    Attributes:
        target: a scalar, or an array of ``count`` registers.
        kind: how two values join.
        shape: extents of the block's thread axes, the last fastest.
        axis: the axis that is joined.
        count: None for a scalar, else the array's length.
    """

    target: Var
    kind: ReduceKind
    shape: tuple[int, ...]
    axis: int
    count: Dim | None = None


@dataclass(frozen=True, slots=True)
class EarlyStart:
    """First in a kernel that some launch asks to be placed beside the last blocks of the one before, however long it
    runs."""


@dataclass(frozen=True, slots=True)
class WidePath:
    """Run ``body`` with packs of ``width`` elements where every check holds at run time, else with packs of one.

    Attributes:
        width: elements of a pack.
        packs: (buffer, offset) that must lie at a multiple of the pack's bytes.
        multiples: dims that must be multiples of ``width``.
        narrow: what runs instead of ``body`` with packs of one, where that takes another form.
    """

    width: int
    packs: tuple[tuple[Var, Dim], ...]
    multiples: tuple[Dim, ...]
    body: tuple[TirStmt, ...]
    narrow: tuple[TirStmt, ...] = ()


@dataclass(frozen=True, slots=True)
class TileMatmul:
    """One ``ops::matmul`` over batches; its epilogue takes neighbouring columns of a row together.

    Attributes:
        lhs, rhs: [batches..., rows, k] and [batches..., k, columns].
        batches: extents of the leading axes.
        rows, columns: of the result.
        batch, row, first: names of the place of the first element in the epilogue.
        slot: name of the position inside the pack; ``element`` is ``first + slot``.
        total: name of the element's sum in ``body``.
        head: statements before those for the elements.
        loads, stores: packs read before and written after the body.
        body: statements for one element.
        width: elements of a pack where ``packs`` and ``multiples`` allow, as in ``WidePath``.
        threads: of the block.
    """

    lhs: BufferView
    rhs: BufferView
    batches: tuple[Dim, ...]
    rows: Dim
    columns: Dim
    batch: Var
    row: Var
    first: Var
    slot: Var
    element: Var
    total: Var
    head: tuple[TirStmt, ...]
    loads: tuple[Pack, ...]
    stores: tuple[Pack, ...]
    body: tuple[TirStmt, ...]
    width: int
    packs: tuple[tuple[Var, Dim], ...]
    multiples: tuple[Dim, ...]
    threads: int = 256


@dataclass(frozen=True, slots=True)
class TilePair:
    """Two products of the same left operand, of few rows, alike in all but their right operands and epilogues.

    The thread that has a sum of the first has that of the second at the same place, and finishes it after.
    """

    first: TileMatmul
    second: TileMatmul


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """An operand of a product that is computed while it is read, neighbours along ``axis`` together.

    Attributes:
        type: its extents and the dtype that it is declared with.
        batch: name of the number of the product's matrix.
        other: name of the index along the axis that packs do not follow.
        first: name of the index of a pack's first element; ``element`` is ``first + slot``.
        axis: 0 where packs follow the first index of an element of a matrix, 1 for the second.
        head: statements before those for the elements.
        loads: packs that are read before ``body``.
        body: statements for one element, whose value is ``value``.
        width: elements of a pack where ``packs`` and ``multiples`` allow, as in ``WidePath``.
    """

    type: TensorType
    batch: Var
    other: Var
    first: Var
    slot: Var
    element: Var
    axis: int
    head: tuple[TirStmt, ...]
    loads: tuple[Pack, ...]
    body: tuple[TirStmt, ...]
    value: Expr
    width: int
    packs: tuple[tuple[Var, Dim], ...]
    multiples: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class TileProducts:
    """One ``ops::matmul`` of products that share their left operand, or whose operands are computed while read.

    Attributes:
        lhs, rhs: [batches..., rows, k] and each [batches..., k, columns].
        batches: extents of the leading axes.
        rows, columns, depth: extents of each product.
        batch, row, column: names of an element's place in ``head`` and ``body``.
        totals: names of the element's sums, one per right operand.
        head: statements before those for the element.
        body: statements for one element.
        threads: of the block.
    """

    lhs: Operand | PackedOperand
    rhs: tuple[Operand | PackedOperand, ...]
    batches: tuple[Dim, ...]
    rows: Dim
    columns: Dim
    depth: Dim
    batch: Var
    row: Var
    column: Var
    totals: tuple[Var, ...]
    head: tuple[TirStmt, ...]
    body: tuple[TirStmt, ...]
    threads: int


@dataclass(frozen=True, slots=True)
class TileAttend:
    """One ``ops::attention`` by tiles, whose ``out`` is the attention's body.

    Attributes:
        attention: what is computed; ``schedule.split`` says in how many parts keys are taken.
        dim, width: of queries and keys, and of values.
        threads: of the block.
        partial: memory for what the parts give; None where there is one.
        barrier: counter pair of the barrier between parts and their sums; None where there is one part.
    """

    attention: TileAttention
    dim: int
    width: int
    threads: int
    partial: Var | None = None
    barrier: Var | None = None


_WRITING = (TileContract, TileCopy, TileFill, TileMap, TilePad, TileReduce)


def inner_statements(stmts: tuple[TirStmt, ...]) -> Iterator[TirStmt]:
    """Every statement, outer before inner, those of CUDA kernels opened too; a pack's stores count as stores."""
    for stmt in walk_tir(stmts):
        yield stmt
        yield from _opened(stmt, type(stmt))


def _opened(stmt: Any, kind: type) -> Iterator[TirStmt]:
    """What a statement of ``kind`` writes and holds. Not narrowed type by type: a checker would take ages over that."""
    if kind in (Packs, TileMatmul):
        yield from (Store(pack.buffer, pack.index, pack.name) for pack in stmt.stores)
    target = stmt.target if kind in _WRITING else None
    if isinstance(target, Part) and target.space == "gmem":
        yield Store(target.buffer, 0, target.buffer)
    if kind is TileRotate and stmt.pair is not None:
        yield from (Store(space, 0, space) for space in stmt.pair)
    if kind is TileSync and stmt.barrier is not None:
        yield Store(stmt.barrier, 0, stmt.barrier)
    if kind is TileAttend:
        yield from _attending(stmt)
    if kind is TilePair:
        yield from inner_statements((stmt.first, stmt.second))
    if kind is JoinedWork:
        yield from _joined_statements(stmt)
    for body in tile_bodies(stmt):
        yield from inner_statements(body)
    if kind in (TileMatmul, TileProducts):
        yield from inner_statements(stmt.head)
    if kind is WidePath:
        yield from inner_statements(stmt.narrow)
    if kind in (Packs, WidePath, TileMatmul, TileProducts):
        yield from inner_statements(stmt.body)


def _attending(stmt: TileAttend) -> Iterator[TirStmt]:
    yield from inner_statements(stmt.attention.body)
    if stmt.partial is not None:
        yield Store(stmt.partial, 0, stmt.partial)
    if stmt.barrier is not None:
        yield from inner_statements((TileSync("grid", stmt.barrier),))  # type: ignore[arg-type]  # a CUDA statement


def _joined_statements(part: JoinedWork) -> Iterator[TirStmt]:
    """Those of a part, with its stores to the parameters of the whole."""
    inner = tuple(inner_statements(part.kernel.body))
    written = written_buffers(inner)
    for param, arg in zip(part.kernel.params, part.args, strict=True):
        if param.name in written:
            yield Store(arg, 0, arg)
    yield from (stmt for stmt in inner if not isinstance(stmt, Store))
