"""Kernels that are one whole-tensor op: all threads of all blocks share its elements."""

from __future__ import annotations

from collections.abc import Callable

from tilefoundry.codegen.cpu.schedule.contraction import view_expr
from tilefoundry.codegen.cpu.schedule.kernel import KernelSpec
from tilefoundry.codegen.cpu.schedule.scope import as_index
from tilefoundry.codegen.cpu.schedule.whole import (
    WHOLE_OPS,
    abort_where_outside,
    index_operand,
    inputs_of,
    starts_of,
    window_of,
)
from tilefoundry.codegen.cuda.schedule.attention import (
    attention_instances,
    attention_statements,
    check_attention,
)
from tilefoundry.codegen.cuda.schedule.geometry import BLOCK
from tilefoundry.codegen.cuda.schedule.instances import Instances, Placement
from tilefoundry.ir.core.expr import Bind, Call
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Abort, Apply, Evaluate, TirStmt
from tilefoundry.ir.types import DType, TensorType, ceildiv, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["CUDA_WHOLE_OPS", "schedule_whole", "whole_instances"]


def whole_instances(spec: KernelSpec) -> Instances:
    """A thread for every few elements, or a warp or a block for every one where it takes their work."""
    call = _only_call(spec)
    if call.op.name == "attention":
        return attention_instances(call, spec)
    if call.op.name == "argmax" and _is_long(call):
        return Instances(product(spec.outputs[0].shape), (_WIDEST,), ("block", "t"))
    per_thread = 4 if call.op.name not in _PER_WARP else 1
    blocks = ceildiv(product(spec.outputs[0].shape), BLOCK * per_thread)
    if call.op.name in _WINDOWS and isinstance(blocks, int):
        blocks = min(blocks, _MOST_BLOCKS)
    return Instances(blocks, (BLOCK,), ("block", "t"))


def schedule_whole(spec: KernelSpec, names: Names, placement: Placement) -> tuple[TirStmt, ...]:
    """The kernel's mesh scope around the one op; its threads take elements in turn, so that blocks may be few."""
    if placement.thread_count % _WARP:
        placement.refuse("a block is whole warps", whole_instances(spec))
    call = _only_call(spec)
    if call.op.name == "attention":
        check_attention(call, spec, placement)
    rule = CUDA_WHOLE_OPS.get(call.op.name) or WHOLE_OPS[call.op.name]
    return (placement.scope(rule(call, spec, names)),)


def _is_long(call: Call) -> bool:
    """Whether a row is a block's work."""
    x = call.args[0].type
    assert isinstance(x, TensorType)
    extent = x.shape[call.attr("axis")]
    return isinstance(extent, int) and extent >= _LONG_ROW


def _only_call(spec: KernelSpec) -> Call:
    bind = spec.function.stmts()[0]
    assert isinstance(bind, Bind) and isinstance(bind.value, Call)
    return bind.value


_WINDOWS = frozenset({"insert_slice", "cache_update"})
_MOST_BLOCKS = 264
"""Blocks of an op that writes its window alone where the caller passes one tensor for both: more would only cost."""

_WARP = 32
_WIDEST = 1024
_LONG_ROW = 4096
_PER_WARP = frozenset({"argmax", "topk", "conv2d", "grouped_matmul"})


def _insert_slice(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    dst, update, *operands = inputs_of(call, spec)
    starts, stmts = starts_of(call.attr("offsets"), operands, names, call)
    for axis, (start, size, extent) in enumerate(zip(starts, update.shape, dst.shape, strict=True)):
        stmts.extend(abort_where_outside("insert_slice", start, size, extent, axis))
    views = tuple(view_expr(view) for view in (dst, update, spec.outputs[0]))
    return (*stmts, Evaluate("insert_window", (*views, *(as_index(start) for start in starts))))


def _cache_update(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    cache, *_, new = inputs_of(call, spec)
    stmts: list[TirStmt] = []
    start, length = (index_operand(arg, spec, names, stmts) for arg in call.args[1:3])
    boolean = scalar(DType.bool_)
    short = Apply(boolean, "cmp_lt", (as_index(length), as_index(0)))
    long = Apply(boolean, "cmp_gt", (as_index(length), as_index(new.shape[1])))
    message = "tf.cache_update: s is negative or more than the length of new"
    stmts.append(Abort(Apply(boolean, "logical_or", (short, long)), "ValueError", message))
    stmts.extend(abort_where_outside("cache_update", start, length, cache.shape[1], 1))
    views = tuple(view_expr(view) for view in (cache, window_of(new, 1, 0, length), spec.outputs[0]))
    starts = tuple(as_index(at) for at in (0, start, 0, 0))
    return (*stmts, Evaluate("insert_window", (*views, *starts)))


def _dynamic_slice(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    """A window whose start is a value on the device."""
    x, *operands = inputs_of(call, spec)
    starts, stmts = starts_of(call.attr("starts"), operands, names, call, first=1)
    assert isinstance(call.type, TensorType)
    steps = call.attr("strides")
    for axis, (start, size, step) in enumerate(zip(starts, call.attr("sizes"), steps, strict=True)):
        stmts.extend(abort_where_outside("slice", start, (size - 1) * step + 1, x.shape[axis], axis))
    window = x.slice(tuple(starts), call.attr("sizes"), steps)
    return (*stmts, Evaluate("copy", (view_expr(window), view_expr(spec.outputs[0]))))


CUDA_WHOLE_OPS: dict[str, Callable[[Call, KernelSpec, Names], tuple[TirStmt, ...]]] = {
    "insert_slice": _insert_slice,
    "cache_update": _cache_update,
    "slice": _dynamic_slice,
    "attention": attention_statements,
}
"""Ops whose statements differ from the CPU's: one pass writes what the CPU writes in two, in order, and attention is
not spelled out."""
