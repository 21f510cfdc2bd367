"""What a tile-level contraction or attention must satisfy: types of operands, indices and sums, and its body."""

from __future__ import annotations

from collections.abc import Iterator

from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.tir.expr import Apply, BufferView, Load, compute_dtype
from tilefoundry.ir.tir.stmt import Comment, If, Let, Store, TirStmt, walk_tir
from tilefoundry.ir.tir.tiles import (
    Operand,
    Prologue,
    TileAttention,
    TileContraction,
    batch_axes,
    sum_dtype,
)
from tilefoundry.ir.types import DType, TensorType, scalar

__all__ = ["buffers_read", "check_body", "check_operands", "check_tiles"]


def check_operands(stmt: TileContraction | TileAttention) -> None:
    """Check operands and schedule; after it, the statement has a shape.

    Raises:
        TypeError: naming the operand or attribute, what it is and what is needed.
    """
    if isinstance(stmt, TileContraction):
        _check_contraction(stmt)
    else:
        _check_attention(stmt)
    wanted = ("rows", "columns", "depth") if isinstance(stmt, TileContraction) else ("queries", "keys")
    tile = stmt.schedule.tile
    if tile is not None and len(tile) != len(wanted):
        raise TypeError(f"{_name(stmt)}: tile is ({', '.join(wanted)}), got {tile}")


def check_tiles(stmt: TileContraction | TileAttention) -> None:
    """Check everything but the body.

    Raises:
        TypeError: as ``check_operands``, and for indices or sums that do not fit the result.
    """
    check_operands(stmt)
    name = _name(stmt)
    if len(stmt.indices) != len(stmt.shape):
        raise TypeError(
            f"{name}: its result is [{', '.join(map(str, stmt.shape))}], one index per axis is needed, got "
            f"{len(stmt.indices)}"
        )
    if isinstance(stmt, TileContraction) and len(stmt.rhs) != len(stmt.sums):
        raise TypeError(
            f"{name}: one sum per right operand is needed, got {len(stmt.sums)} for {len(stmt.rhs)}"
        )
    held = scalar(sum_dtype(_tensor(stmt.operands[0]).dtype))
    for total in stmt.sums:
        if total.type != held:
            raise TypeError(f"{name}: {total.name} is {total.type}, its sums are {held}")


def check_body(stmt: TileContraction | TileAttention) -> None:
    """Check that the body does what one element may do.

    Raises:
        TypeError: a statement of another kind, or a store to what the operands are read from.
    """
    name = _name(stmt)
    read = {buffer.name for operand in stmt.operands for buffer in buffers_read(operand)}
    for inner in walk_tir(stmt.body):
        if not isinstance(inner, (Let, Store, If, Comment)):
            raise TypeError(
                f"{name}: its body runs on each element of the result: it names scalars, branches and stores; "
                f"{type(inner).__name__} stands after it"
            )
        if isinstance(inner, Store) and inner.buffer.name in read:
            raise TypeError(
                f"{name}: its body stores to {inner.buffer.name}, which other tiles still read; store to a buffer "
                "of its own"
            )


def buffers_read(expr: Expr) -> Iterator[Var]:
    """Every buffer that ``expr`` reads."""
    if isinstance(expr, (Load, BufferView)):
        yield expr.buffer
    elif isinstance(expr, Apply):
        for arg in expr.args:
            yield from buffers_read(arg)
    elif isinstance(expr, Prologue):
        yield from buffers_read(expr.value)


def _check_contraction(stmt: TileContraction) -> None:
    if not stmt.rhs:
        raise TypeError("T.contract: rhs is empty; give one operand or a tuple of operands")
    left = _operand("T.contract", "lhs", stmt.lhs, 2)
    rights = [_operand("T.contract", "rhs", operand, 2) for operand in stmt.rhs]
    for right in rights:
        if right.dtype is not left.dtype or right.shape != rights[0].shape:
            raise TypeError(
                f"T.contract: lhs is {left}, rhs {', '.join(map(str, rights))}; all need one dtype, the right "
                "operands one shape; a prologue converts: (T.cast(w[k, j], ...) for k, j in T.elements(shape, dtype))"
            )
    if left.shape[-1] != rights[0].shape[-2]:
        raise TypeError(
            f"T.contract: lhs {left} has the depth {left.shape[-1]}, rhs {rights[0]} {rights[0].shape[-2]}"
        )
    try:
        batch_axes(left.shape[:-2], rights[0].shape[:-2])
    except ValueError as error:
        raise TypeError(f"T.contract: lhs {left}, rhs {rights[0]}: {error}") from None


def _check_attention(stmt: TileAttention) -> None:
    named = (("q", stmt.q), ("k", stmt.k), ("v", stmt.v))
    q, k, v = (_operand("T.attention", name, operand, 4) for name, operand in named)
    if not q.rank == k.rank == v.rank == 4 or not q.dtype is k.dtype is v.dtype or not q.dtype.is_float:
        raise TypeError(
            f"T.attention: q {q}, k {k}, v {v} must be [batch, heads, length, dim] of one float dtype"
        )
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise TypeError(
            f"T.attention: q {q}, k {k}, v {v}: all need one batch, q and k one dim, k and v one number of heads "
            "and one length"
        )
    heads, shared = q.shape[1], k.shape[1]
    static = isinstance(heads, int) and isinstance(shared, int) and shared > 0
    if heads != shared and not (static and heads % shared == 0):  # type: ignore[operator]  # ints where static
        raise TypeError(
            f"T.attention: the {heads} heads of q are no multiple of the {shared} heads of k and v"
        )
    if stmt.window is not None and not stmt.causal:
        raise TypeError(
            "T.attention: window= counts keys back from the query's position; it needs causal=True"
        )
    _check_kv_len(stmt, q)


def _check_kv_len(stmt: TileAttention, q: TensorType) -> None:
    if stmt.kv_len is None:
        return
    given = _tensor(stmt.kv_len)
    if given.dtype not in (DType.i32, DType.i64) or given.shape not in ((), (1,), q.shape[:1]):
        raise TypeError(f"T.attention: kv_len is {given}; i32 or i64 of rank 0 or [{q.shape[0]}] is needed")


def _operand(call: str, name: str, operand: Operand, rank: int) -> TensorType:
    type_ = _tensor(operand)
    if type_.rank < rank or type_.dtype.is_bool:
        raise TypeError(f"{call}: {name} is {type_}; numbers of rank {rank} or more are needed")
    if isinstance(operand, Prologue):
        _check_prologue(call, name, operand)
    return type_


def _check_prologue(call: str, name: str, operand: Prologue) -> None:
    type_ = _tensor(operand)
    if len(operand.indices) != type_.rank:
        raise TypeError(f"{call}: {name} is {type_}, its elements have {len(operand.indices)} indices")
    wanted = scalar(compute_dtype(type_.dtype))
    if operand.value.type != wanted:
        raise TypeError(
            f"{call}: the elements of {name} are {operand.value.type}, {type_.dtype} is made from {wanted}; "
            "use T.cast"
        )


def _tensor(operand: Operand) -> TensorType:
    assert isinstance(operand.type, TensorType)
    return operand.type


def _name(stmt: TirStmt) -> str:
    return "T.contract" if isinstance(stmt, TileContraction) else "T.attention"
