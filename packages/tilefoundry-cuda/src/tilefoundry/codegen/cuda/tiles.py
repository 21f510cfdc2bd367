"""Statements of hand-placed kernels: what instances hold, and one runtime call per op on it.

Offsets, strides and bounds are dims over the kernel's extents, loop indices, and the coordinates that
``MeshValue`` names. Strides and offsets count elements.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.core.expr import Constant, Var
from tilefoundry.ir.tir import TirStmt
from tilefoundry.ir.types import Dim, DimVar, DType
from tilefoundry.ir.types.shard import LevelAxes, Mesh, ShardLayout

__all__ = [
    "BARRIER",
    "Fragment",
    "Limit",
    "MeshValue",
    "Part",
    "TileAsync",
    "TileContract",
    "TileCopy",
    "TileEach",
    "TileFill",
    "TileGather",
    "TileLoop",
    "TileMap",
    "TileMma",
    "TileOnly",
    "TilePad",
    "TileReduce",
    "TileRotate",
    "TileRegisters",
    "TileShared",
    "TileSync",
    "TileText",
    "dtype_of",
    "element",
    "tile_bodies",
]

BARRIER = "barrier"
"""What the counter pair of a kernel's grid barrier is called; the library owns it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Elements of a part whose index along ``mode`` is at or beyond ``bound`` are not there."""

    mode: int
    bound: Dim


@dataclass(frozen=True, slots=True)
class Part:
    """What the running instance touches of a buffer: element (i, j, ...) lies at ``offset + i * strides[0] + ...``.

    Attributes:
        buffer: name and element type.
        space: ``gmem``, ``smem`` or ``rmem``.
        shape: static extents.
        limits: where the last elements may be missing.
    """

    buffer: Var
    space: str
    offset: Dim
    shape: tuple[int, ...]
    strides: tuple[Dim, ...]
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Fragment:
    """How a mesh distributes the registers of a value, for ops in which threads meet.

    Attributes:
        layout: canonical shape and attributes over ``mesh``; split strides are 0.
        mesh: name of the mesh value.
    """

    layout: ShardLayout
    mesh: str


@dataclass(frozen=True, slots=True)
class MeshValue:
    """``name`` is the mesh in what follows, and ``coordinates`` name the running instance's place on it.

    Attributes:
        mesh: static, so that ops can derive from it who meets whom; None where no level of it is.
        levels: the levels' axes.
        coordinates: (mesh axis, variable); extents: (mesh axis, variable) where only the launch decides.
    """

    name: str
    mesh: Mesh | None
    levels: tuple[LevelAxes, ...]
    coordinates: tuple[tuple[int, Var], ...]
    extents: tuple[tuple[int, Var], ...] = ()


@dataclass(frozen=True, slots=True)
class TileRegisters:
    """Registers of every instance for its part of a value.

    Attributes:
        target: the value; its dtype is the registers'.
        size: elements.
        fragment: how the value is distributed, where its mesh is static.
    """

    target: Var
    size: int
    fragment: Fragment | None = None


@dataclass(frozen=True, slots=True)
class TileShared:
    """Shared memory of the block, ``size`` elements; at ``offset`` bytes of what the launch gives, where there is more
    than a kernel declares itself."""

    target: Var
    size: int
    offset: int | None = None

    @property
    def bytes(self) -> int:
        """What it takes up, in 16-byte pieces."""
        return (self.size * dtype_of(self.target).itemsize + 15) // 16 * 16


@dataclass(frozen=True, slots=True)
class TileCopy:
    """Copy between parts of equal shape; what a limit takes away is 0 in the target, or stays as it is in memory."""

    source: Part
    target: Part


@dataclass(frozen=True, slots=True)
class TileAsync:
    """``ops::copy_async`` from gmem to smem, committed at once unless told otherwise; ``TileText`` waits."""

    source: Part
    target: Part
    commits: bool = True


@dataclass(frozen=True, slots=True)
class TileText:
    """One line of runtime calls without operands, such as a wait."""

    text: str


@dataclass(frozen=True, slots=True)
class TileFill:
    """Every element of ``target`` becomes ``value``; a dim may mention the element's own index as ``element(mode)``."""

    target: Part
    value: Constant | Dim


@dataclass(frozen=True, slots=True)
class TileMap:
    """``ops::unary``, ``binary``, ``select``, ``cast`` or ``clamp`` on what an instance holds.

    Attributes:
        family: the runtime's entry.
        tag: functor tag without its suffix; empty where the entry has none.
        operands: parts of the target's shape and literals.
        target: where the result goes.
        extra: further arguments as numbers, the bounds of a clamp.
    """

    family: str
    tag: str
    operands: tuple[Part | Constant, ...]
    target: Part
    extra: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TilePad:
    """Elements of ``target`` that its limits take away become the identity of ``op``."""

    target: Part
    op: str


@dataclass(frozen=True, slots=True)
class TileReduce:
    """``ops::reduce``: a fold of what an instance holds, or one that threads join.

    Attributes:
        op: combine tag without its suffix.
        axes: modes of ``source`` that go.
        source: what an instance holds.
        fragment: how ``source`` is distributed; None where no other instance takes part.
        target: one element for each that an instance keeps, in order.
    """

    op: str
    axes: tuple[int, ...]
    source: Part
    fragment: Fragment | None
    target: Part


@dataclass(frozen=True, slots=True)
class TileContract:
    """``target[m] = sum over k of lhs[m, k] * rhs[m, k]`` in the accumulator's type, rounded once.

    ``lhs`` and ``rhs`` have the modes of ``target`` and then those of ``depth``.
    """

    lhs: Part
    rhs: Part
    target: Part
    depth: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TileGather:
    """``target`` from the rows of ``table`` that ``index`` names: row r lies ``r * step`` elements on.

    Attributes:
        table: over the target's modes; along ``modes`` it does not move.
        index: row numbers over the target's modes; they differ along ``modes`` alone.
        modes: the selected axis.
        step: distance of rows; extent: how many there are, beyond which the kernel stops.
    """

    table: Part
    index: Part
    target: Part
    modes: tuple[int, ...]
    step: Dim
    extent: Dim


@dataclass(frozen=True, slots=True)
class TileSync:
    """``ops::sync``: ``kind`` is one of the runtime's kinds; ``barrier`` the counter pair of a grid barrier.

    ``base``, ``count``, ``mask`` and ``number`` are the geometry of kinds that have one.
    """

    kind: str
    barrier: Var | None = None
    base: int = 0
    count: int = 0
    mask: int = 0
    number: int = 0


@dataclass(frozen=True, slots=True)
class TileLoop:
    """``for index in range(start, stop, step)``.

    ``window`` is a variable and the length of a tile: ``min(length, stop - index)`` in the body.
    """

    index: Var
    start: Dim
    stop: Dim
    step: Dim
    body: tuple[Any, ...]
    window: tuple[Var, Dim] | None = None


@dataclass(frozen=True, slots=True)
class TileRotate:
    """A pointer of a loop.

    Without ``pair``: ``pointer`` begins at ``source``, to be read through, or written where ``writes`` says so. With
    it: ``pointer`` moves on to ``source``, itself a pointer that alternates between the two workspaces of ``pair``.
    """

    pointer: Var
    source: Var
    offset: Dim = 0
    pair: tuple[Var, Var] | None = None
    writes: bool = False


@dataclass(frozen=True, slots=True)
class TileEach:
    """``body`` for the items ``first, first + step, ...`` below ``count``.

    ``places`` name an item's coordinates: (variable, extent) per axis, the last one fastest.
    """

    counter: Var
    first: Dim
    count: Dim
    step: Dim
    places: tuple[tuple[Var, Dim], ...]
    body: tuple[TirStmt, ...]


@dataclass(frozen=True, slots=True)
class TileMma:
    """``sums += a @ b`` by instructions of 16x8 sums, for the lanes of a warp.

    Attributes:
        dtype: of the factors.
        sums: registers over (row pieces, column pieces, 2), row-major.
        a: what a lane reads of the left factor: (row pieces, 1, depth pieces, 1, pair).
        b: and of the right one: (depth pieces, 1, pair, column pieces, 1).
        pair: factors that lie side by side in one register.
    """

    dtype: DType
    sums: Part
    a: Part
    b: Part
    pair: int


@dataclass(frozen=True, slots=True)
class TileOnly:
    """``body`` where every dim of ``zeros`` is 0: one of several holders acts."""

    zeros: tuple[Dim, ...]
    body: tuple[TirStmt, ...]


def element(mode: int) -> DimVar:
    """The index of an element along ``mode``, in the value of a ``TileFill``."""
    return DimVar(f"element{mode}_", 0, 2**31)


def dtype_of(value: Var | Constant) -> DType:
    """Element type of an operand."""
    return value.type.dtype  # type: ignore[attr-defined]  # tensors


def tile_bodies(stmt: Any) -> tuple[tuple[TirStmt, ...], ...]:
    """The statement lists nested in a statement of this file."""
    return (stmt.body,) if isinstance(stmt, (TileEach, TileLoop, TileOnly)) else ()
