"""Text of one ``ops::attention`` call by tiles."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeGuard

from tilefoundry.codegen.cpu.emit.scalars import dtype_name
from tilefoundry.codegen.cuda.attention_tiles import RING_THREADS
from tilefoundry.codegen.cuda.statements import TileAttend
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.tir import Apply, BufferView, Operand, Store, TileAttention
from tilefoundry.ir.types import Dim, TensorType, dim_vars, substitute
from tilefoundry.ir.types.dim import product

if TYPE_CHECKING:
    from tilefoundry.codegen.cuda.source.statements import DeviceEmitter

__all__ = ["attends_in_turns", "shared_size_text", "write_attention"]


def attends_in_turns(stmt: object) -> TypeGuard[TileAttend]:
    """Whether blocks take an attention's tiles in turns, out of shared memory that their launch gives them."""
    return isinstance(stmt, TileAttend) and stmt.threads == RING_THREADS


def shared_size_text(stmt: TileAttend) -> str:
    """How many bytes of it a block takes."""
    assert isinstance(stmt.attention.q.type, TensorType)
    kind = dtype_name(stmt.attention.q.type.dtype)
    return f"ops::attention_bytes<{kind}, {stmt.dim}, {stmt.width}, {stmt.threads}>()"


def write_attention(to: DeviceEmitter, stmt: TileAttend) -> None:
    """Operands in memory or as functions of their indices, the task, the call with what is done with an element."""
    out, own = to.out, stmt.attention
    for name, operand in (("q_", own.q), ("k_", own.k), ("v_", own.v)):
        _write_operand(to, name, operand)
    q, k = own.q.type, own.k.type
    assert isinstance(q, TensorType) and isinstance(k, TensorType)
    extents = (*q.shape[:2], k.shape[1], q.shape[2], k.shape[2])
    sizes = ", ".join(f"int({to.dim(dim)})" for dim in extents)
    out.line(
        f"auto const task_ = ops::attention_task<{stmt.dim}, {stmt.width}, {own.schedule.split}>(q_, k_, v_, "
        f"{_counts(to, own)}, {sizes}, {_scores(own)});"
    )
    if attends_in_turns(stmt):
        out.line("TILEFOUNDRY_DYNAMIC_SHARED(workspace_);")
    else:
        out.line(f"constexpr int bytes_ = ops::attention_workspace_bytes<decltype(task_), {stmt.threads}>();")
        out.line("alignas(1024) __shared__ unsigned char workspace_[bytes_];")
    stored = _stored_heads(own)
    if stored is None:
        _write_body(to, own)
    else:
        _write_stored(to, *stored)
    memory = ""
    if stmt.partial is not None and stmt.barrier is not None:
        memory = f", {to.name(stmt.partial)}, reinterpret_cast<unsigned*>({to.name(stmt.barrier)})"
    out.line(f"ops::attention<{stmt.threads}>(task_, workspace_, store_{memory});")


def _write_body(to: DeviceEmitter, own: TileAttention) -> None:
    """What is done with an element, as a function of its place and value."""
    out = to.out
    with out.block(
        "auto const store_ = [&](int batch_, int head_, int query_, int element_, auto value_) {", "};"
    ):
        places = ("batch_", "head_", "query_", "element_")
        for index, place in zip(own.indices, places, strict=True):
            out.line(f"[[maybe_unused]] const index_t {to.name(index)} = {place};")
        kind = dtype_name(own.output.type.dtype)  # type: ignore[union-attr]  # a scalar
        out.line(f"[[maybe_unused]] const {kind} {to.name(own.output)} = value_;")
        to.stmts(own.body)


def _stored_heads(own: TileAttention) -> tuple[Var, Dim, tuple[Dim, ...]] | None:
    """Buffer, first element and steps along the indices, where all that is done with an element is to store it rounded
    to the operands' type: whole rows can be stored then."""
    if len(own.body) != 1 or not isinstance(own.body[0], Store):
        return None
    store = own.body[0]
    dtype = store.buffer.type.dtype  # type: ignore[attr-defined]  # a tensor
    value = store.value
    if isinstance(value, Apply) and value.op == "cast" and dict(value.attrs)["dtype"] is dtype:
        value = value.args[0]
    if value != own.output or dtype is not own.q.type.dtype:  # type: ignore[union-attr]  # a tensor
        return None
    zeros: dict[str, Dim] = dict.fromkeys((index.name for index in own.indices), 0)
    first = substitute(store.index, zeros)
    steps = tuple(substitute(store.index, {**zeros, name: 1}) - first for name in zeros)
    named = {var.name: var for var in dim_vars(store.index)}
    linear = first
    for name, step in zip(zeros, steps, strict=True):
        linear = linear + (product((named[name], step)) if name in named else 0)
    return (store.buffer, first, steps) if linear == store.index else None


def _write_stored(to: DeviceEmitter, buffer: Var, first: Dim, steps: tuple[Dim, ...]) -> None:
    kind = dtype_name(buffer.type.dtype)  # type: ignore[attr-defined]  # a tensor
    base = to.name(buffer) + (f" + {to.dim(first)}" if first != 0 else "")
    texts = ", ".join(f"index_t({to.dim(step)})" for step in steps)
    to.out.line(f"ops::StoredHeads<{kind}> const store_{{{{{base}, {{{texts}}}}}}};")


def _write_operand(to: DeviceEmitter, name: str, operand: Operand) -> None:
    assert isinstance(operand.type, TensorType)
    kind = dtype_name(operand.type.dtype)
    if isinstance(operand, BufferView):
        base = to.name(operand.buffer) + (f" + {to.dim(operand.offset)}" if operand.offset != 0 else "")
        steps = ", ".join(f"index_t({to.dim(step)})" for step in operand.strides)
        const = "" if operand.buffer.name in to.written else " const"
        out = f"ops::HeadsInMemory<{kind}{const}> const {name}{{{base}, {{{steps}}}}};"
        to.out.line(out)
        return
    with to.out.block(f"auto const {name}at_ = [&](int batch_, int head_, int row_, int element_) {{", "};"):
        for index, place in zip(operand.indices, ("batch_", "head_", "row_", "element_"), strict=True):
            to.out.line(f"[[maybe_unused]] const index_t {to.name(index)} = {place};")
        to.out.line(f"return convert<{kind}>({to.expr(operand.value)});")
    to.out.line(f"auto const {name} = ops::computed_heads<{kind}>({name}at_);")


def _counts(to: DeviceEmitter, own: TileAttention) -> str:
    if own.kv_len is None:
        return "ops::AllKeys{}"
    view = own.kv_len
    assert isinstance(view.type, TensorType)
    step = view.strides[0] if view.type.rank and view.type.shape[0] != 1 else 0
    const = "" if view.buffer.name in to.written else " const"
    base = to.name(view.buffer) + (f" + {to.dim(view.offset)}" if view.offset != 0 else "")
    return f"ops::KeyCounts<{dtype_name(view.type.dtype)}{const}>{{{base}, index_t({to.dim(step)})}}"


def _scores(own: TileAttention) -> str:
    cap, window = own.softcap or 0.0, own.window or 0
    return f"ops::Scores{{{own.scale!r}, {cap!r}, {window}, {'true' if own.causal else 'false'}}}"
