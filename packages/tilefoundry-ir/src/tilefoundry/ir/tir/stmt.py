"""Statements of TIR."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Union

from tilefoundry.ir.core.exact import exact
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir.expr import BufferView
from tilefoundry.ir.tir.tiles import TileAttention, TileContraction
from tilefoundry.ir.types import Dim, TensorType

__all__ = [
    "Abort",
    "Accumulate",
    "Accumulator",
    "Allocate",
    "Comment",
    "ComputedOperand",
    "Contraction",
    "DispatchCall",
    "Evaluate",
    "For",
    "Guard",
    "If",
    "Launch",
    "Let",
    "MeshScope",
    "Parallel",
    "Return",
    "Slab",
    "Store",
    "TirStmt",
    "While",
    "walk_tir",
]


@dataclass(frozen=True, slots=True)
class Comment:
    """A line of text for whoever reads the generated source."""

    text: str


@dataclass(frozen=True, slots=True)
class Let:
    """``target = value``, a scalar that does not change."""

    target: Var
    value: Expr


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A scalar that starts at the identity of ``kind`` and is joined into by ``Accumulate``."""

    target: Var
    kind: ReduceKind


@dataclass(frozen=True, slots=True)
class Accumulate:
    """Join ``value`` into an accumulator; the order of joins inside a vector loop is free but fixed."""

    target: Var
    kind: ReduceKind
    value: Expr


@dataclass(frozen=True, slots=True)
class Store:
    """``buffer[index] = value``, rounded to the buffer's dtype."""

    buffer: Var
    index: Dim
    value: Expr


@dataclass(frozen=True, slots=True)
class Allocate:
    """A buffer private to the thread that runs the enclosing statements, freed at their end.

    Attributes:
        buffer: name and dtype; its shape is not looked at.
        size: elements; an integer gives an array on the stack.
    """

    buffer: Var
    size: Dim


@dataclass(frozen=True, slots=True)
class For:
    """``for index in range(start, stop, step)``.

    ``kind`` is ``"serial"`` or ``"vector"``; turns of a vector loop are independent but for accumulators.
    """

    index: Var
    start: Dim
    stop: Dim
    body: tuple[TirStmt, ...]
    kind: str = "serial"
    step: Dim = 1


@dataclass(frozen=True, slots=True)
class Parallel:
    """Run ``body`` on disjoint pieces ``[begin, end)`` of ``[0, extent)``, on as many threads as it deserves.

    ``cost`` is the number of scalar operations per item.
    """

    begin: Var
    end: Var
    extent: Dim
    cost: Dim
    body: tuple[TirStmt, ...]


@dataclass(frozen=True, slots=True)
class While:
    """Repeat ``body`` while ``condition`` holds."""

    condition: Expr
    body: tuple[TirStmt, ...]


@dataclass(frozen=True, slots=True)
class If:
    """``then`` where ``condition`` holds, else ``orelse``."""

    condition: Expr
    then: tuple[TirStmt, ...]
    orelse: tuple[TirStmt, ...] = ()


@dataclass(frozen=True, slots=True)
class MeshScope:
    """Statements under a mesh."""

    name: str
    mesh: Any
    body: tuple[TirStmt, ...]


@dataclass(frozen=True, slots=True)
class Evaluate:
    """A tile-level op on views; ``op`` names one public entry of the C++ runtime.

    Attributes:
        op: name in ``tilefoundry.ir.tir.ops.TILE_OPS``.
        args: views and scalars; outputs last.
        attrs: compile-time arguments.
    """

    op: str
    args: tuple[Expr, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    def __eq__(self, other: object) -> bool:
        """Equal as calls of HIR are: numbers among the attributes by type and spelling."""
        return (
            isinstance(other, Evaluate)
            and (self.op, self.args) == (other.op, other.args)
            and exact(self.attrs) == exact(other.attrs)
        )

    def __hash__(self) -> int:
        return hash((self.op, self.args, exact(self.attrs)))


@dataclass(frozen=True, slots=True)
class ComputedOperand:
    """An operand of a ``Contraction`` that is computed while it is read, one rectangle after the other.

    Attributes:
        type: (batches..., rows, columns) of the operand, and what its elements are multiplied as.
        target: the buffer that ``body`` writes: the element at (outer, inner) goes to
            ``(outer - begin) * pitch + inner - inner_begin``.
        pitch, batch, begin, end, inner_begin, inner_end: what ``body`` is told: the number of the product's batch, and
            the rectangle.
        along_rows: whether the inner axis is that of the rows, else that of the columns.
        shared: the operand is the same in every batch, so that ``batch`` means nothing.
        cost: scalar operations per element.
        body: computes a rectangle.
    """

    type: TensorType
    target: Var
    pitch: Var
    batch: Var
    begin: Var
    end: Var
    inner_begin: Var
    inner_end: Var
    along_rows: bool
    shared: bool
    cost: int
    body: tuple[TirStmt, ...]

    @property
    def bounds(self) -> tuple[Var, ...]:
        """The index variables that ``body`` is told, in order."""
        return (self.pitch, self.batch, self.begin, self.end, self.inner_begin, self.inner_end)


@dataclass(frozen=True, slots=True)
class Contraction:
    """``acc[..., i, j] = sum over k of lhs[..., i, k] * rhs[..., k, j]``, in blocks of rows, with an epilogue.

    Attributes:
        lhs, rhs: operands of one rank, in memory or computed; leading axes are batches, stride 0 repeats.
        destination: where the accumulator lies when its dtype is the accumulator's, else None (scratch).
        shape: extents of the accumulator, leading axes first.
        accumulator: the buffer that ``body`` reads a block from, row-major with row stride ``pitch``.
        pitch: name of the row stride of ``accumulator`` inside ``body``.
        batch, row_begin, row_end, column_begin, column_end: the block that ``body`` gets; rows and columns
            count from the accumulator's start.
        whole_rows: ``body`` needs all columns of its rows at once.
        body: the epilogue; empty where the contraction itself is the result.
    """

    lhs: BufferView | ComputedOperand
    rhs: BufferView | ComputedOperand
    destination: BufferView | None
    shape: tuple[Dim, ...]
    accumulator: Var
    pitch: Var
    batch: Var
    row_begin: Var
    row_end: Var
    column_begin: Var
    column_end: Var
    whole_rows: bool
    body: tuple[TirStmt, ...] = ()


@dataclass(frozen=True, slots=True)
class Slab:
    """The one allocation of a call, cut into slots; buffers whose lives do not overlap share a slot.

    Attributes:
        slots: bytes that each slot holds: the largest of its buffers, listed one by one.
        buffers: (buffer, slot) of everything in it.
    """

    slots: tuple[tuple[Dim, ...], ...]
    buffers: tuple[tuple[Var, int], ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """Call of another function of the module.

    Attributes:
        callee: its name; ``child.function`` for a function of a child module.
        args: buffers (with an element offset, as views of rank 0), then extents, in parameter order.
        grid, block: extents of the launch where the callee runs on a device.
        attributes: (name, value) pairs of ``LAUNCH_ATTRIBUTES``, and what lowering adds.
    """

    callee: str
    args: tuple[Expr, ...]
    grid: tuple[Dim, ...] = ()
    block: tuple[Dim, ...] = ()
    attributes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class DispatchCall:
    """Run the first alternative whose pattern matches the value of ``subject``."""

    subject: Var
    alternatives: tuple[tuple[Any, tuple[TirStmt, ...]], ...]


@dataclass(frozen=True, slots=True)
class Abort:
    """Stop the call with an error where ``condition`` holds.

    Attributes:
        condition: a bool scalar.
        kind: name of the Python exception.
        message: its text.
    """

    condition: Expr
    kind: str
    message: str


@dataclass(frozen=True, slots=True)
class Guard:
    """Statements in which indices are looked up; one outside ``[0, extent)`` stops the call after them.

    Attributes:
        fault: the record that ``bounded`` writes to; it keeps the first fault.
        op: the op to name in the error.
        extent: the extent that indices must lie in.
    """

    fault: Var
    op: str
    extent: Dim
    body: tuple[TirStmt, ...]


@dataclass(frozen=True, slots=True)
class Return:
    """Leave the function."""


TirStmt = Union[
    Abort,
    Accumulate,
    Accumulator,
    Allocate,
    Comment,
    Contraction,
    DispatchCall,
    Evaluate,
    For,
    Guard,
    If,
    Launch,
    Let,
    MeshScope,
    Parallel,
    Return,
    Slab,
    Store,
    TileAttention,
    TileContraction,
    While,
]


def bodies(stmt: TirStmt) -> tuple[tuple[TirStmt, ...], ...]:
    """The statement lists nested directly in ``stmt``."""
    if isinstance(stmt, (For, While, MeshScope, Parallel, TileContraction, TileAttention, Guard)):
        return (stmt.body,)
    if isinstance(stmt, Contraction):
        operands = (stmt.lhs, stmt.rhs)
        return (*(one.body for one in operands if isinstance(one, ComputedOperand)), stmt.body)
    if isinstance(stmt, If):
        return (stmt.then, stmt.orelse)
    if isinstance(stmt, DispatchCall):
        return tuple(body for _, body in stmt.alternatives)
    return ()


def walk_tir(stmts: tuple[TirStmt, ...]) -> Iterator[TirStmt]:
    """Every statement, outer before inner, in program order."""
    for stmt in stmts:
        yield stmt
        for body in bodies(stmt):
            yield from walk_tir(body)
