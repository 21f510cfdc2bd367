"""Kernels that are one tile-level attention: one ``ops::attention`` call, whose ``out`` is the attention's body."""

from __future__ import annotations

from tilefoundry.codegen.cuda.attention_tiles import attention_blocks, attention_threads
from tilefoundry.codegen.cuda.authored.memory import BARRIER_TYPE
from tilefoundry.codegen.cuda.authored.refusal import NotFollowed
from tilefoundry.codegen.cuda.prims.schedules import warn_of_schedule
from tilefoundry.codegen.cuda.statements import TileAttend
from tilefoundry.codegen.cuda.tiles import BARRIER
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    BufferView,
    Let,
    MeshScope,
    PrimFunction,
    Prologue,
    TileAttention,
    sum_dtype,
    walk_tir,
)
from tilefoundry.ir.types import DType, TensorType, scalar, type_dim_vars
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Layout, Mesh, Topology

__all__ = ["is_attention", "lower_attention"]

_MOST_DIM = {4: 1024, 8: 512}
"""Most dim of queries, keys and values by bytes of a sum: a tile's queries lie in shared memory."""


def is_attention(function: PrimFunction) -> bool:
    """True where an attention is all that the kernel does."""
    return len(function.body) == 1 and isinstance(function.body[0], TileAttention)


def lower_attention(function: PrimFunction) -> PrimFunction:
    """The kernel. Keys in parts take memory for what each part gives, and a barrier at which all blocks meet.

    Raises:
        NotFollowed: a dim that only a call decides, or one beyond what a block holds.
    """
    (stmt,) = function.body
    assert isinstance(stmt, TileAttention)
    warn_of_schedule(f"{function.name}: T.attention", stmt.schedule)
    q, k, v = (operand.type for operand in stmt.operands)
    assert isinstance(q, TensorType) and isinstance(k, TensorType) and isinstance(v, TensorType)
    dim, width = (_dim(function.name, name, type_) for name, type_ in (("q", q), ("v", v)))
    parts, names = stmt.schedule.split, Names(_taken(function, stmt))
    partial = Var(
        TensorType((product((*q.shape[:3], parts, width + 2)),), sum_dtype(q.dtype)), names.fresh("partial")
    )
    barrier = Var(BARRIER_TYPE, BARRIER)
    in_memory = all(isinstance(operand, BufferView) for operand in stmt.operands)
    plain = in_memory and stmt.kv_len is None and parts == 1
    threads = attention_threads(q, k, width, plain)
    tile = TileAttend(
        stmt,
        dim,
        width,
        threads,
        partial if parts > 1 else None,
        barrier if parts > 1 else None,
    )
    levels = (
        Topology("cta", attention_blocks(q, k, width, parts, threads)),
        Topology("thread", threads),
    )
    mesh = Mesh(levels, Layout(tuple(level.extent for level in levels)), ("b", "t"))
    extents = dict.fromkeys(var for param in function.params for var in type_dim_vars(param.type))
    params = (
        *(Var(TensorType((), p.type.dtype), p.name) for p in function.params),  # type: ignore[attr-defined]  # tensors
        *((partial, barrier) if parts > 1 else ()),
        *(Var(scalar(DType.i64), var.name, is_const=True) for var in extents),
    )
    return PrimFunction(function.name, params, (MeshScope("launch", mesh, (tile,)),), 0)  # type: ignore[arg-type]  # a CUDA statement


def _dim(name: str, operand: str, type_: TensorType) -> int:
    dim = type_.shape[3]
    if not isinstance(dim, int):
        raise NotFollowed(
            f"{name}: T.attention needs a static dim on CUDA, got {dim} of {operand}; make it a number"
        )
    most = _MOST_DIM[sum_dtype(type_.dtype).itemsize]
    if not 1 <= dim <= most:
        raise NotFollowed(
            f"{name}: T.attention takes dims from 1 to {most} of {type_.dtype} on CUDA, got {dim} of {operand}; use "
            "tf.attention in a @func"
        )
    return dim


def _taken(function: PrimFunction, stmt: TileAttention) -> set[str]:
    taken = {param.name for param in function.params} | {var.name for var in (*stmt.indices, *stmt.sums)}
    taken |= {var.name for param in function.params for var in type_dim_vars(param.type)}
    taken |= {index.name for o in stmt.operands if isinstance(o, Prologue) for index in o.indices}
    return taken | {inner.target.name for inner in walk_tir(stmt.body) if isinstance(inner, Let)} | {BARRIER}
