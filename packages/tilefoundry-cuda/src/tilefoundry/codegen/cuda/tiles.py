"""Statements of hand-placed kernels: distributed values, and one runtime call per op on them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.core.expr import Constant, Var
from tilefoundry.ir.types import DType
from tilefoundry.ir.types.shard import Mesh, ShardLayout

__all__ = ["MeshValue", "TileAlloc", "TileCopy", "TileMap", "TileReduce"]


@dataclass(frozen=True, slots=True)
class MeshValue:
    """``name`` is the mesh in what follows."""

    name: str
    mesh: Mesh


@dataclass(frozen=True, slots=True)
class TileAlloc:
    """Registers of every instance for its part of a distributed value.

    Attributes:
        target: the value; its type has the logical shape.
        layout: how the mesh distributes it.
        mesh: name of the mesh.
    """

    target: Var
    layout: ShardLayout
    mesh: str


@dataclass(frozen=True, slots=True)
class TileCopy:
    """Between a distributed value and the whole of it in global memory, a buffer of the kernel.

    ``source`` or ``target`` is the buffer; the other one is distributed.
    """

    source: Var
    target: Var
    buffer_is_source: bool


@dataclass(frozen=True, slots=True)
class TileMap:
    """``ops::unary``, ``ops::binary``, ``ops::cast`` or ``ops::clamp`` on what an instance holds.

    Attributes:
        family: the runtime's entry.
        tag: functor tag without its suffix; empty where the entry has none.
        operands: distributed values and literals.
        target: the value that receives the result.
        extra: further arguments as numbers, the bounds of a clamp.
    """

    family: str
    tag: str
    operands: tuple[Var | Constant, ...]
    target: Var
    extra: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class TileReduce:
    """``ops::reduce``: a fold of what each instance holds (``folds``), or a reduction that instances join.

    Attributes:
        op: combine tag without its suffix.
        axes: canonical axes of a fold, logical axes of a joined reduction; none where partials alone are joined.
        source, target: distributed values.
        folds: no other instance takes part.
    """

    op: str
    axes: tuple[int, ...]
    source: Var
    target: Var
    folds: bool


def dtype_of(value: Var | Constant) -> DType:
    """Element type of an operand."""
    return value.type.dtype  # type: ignore[attr-defined]  # tensors
