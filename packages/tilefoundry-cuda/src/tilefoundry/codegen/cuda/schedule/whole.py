"""Kernels that are one whole-tensor op: all threads of all blocks share its elements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

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
    """The instances that suit the op: most ops take a thread for every few elements."""
    call = _only_call(spec)
    return _INSTANCES.get(call.op.name, _by_element)(call, spec)


def schedule_whole(spec: KernelSpec, names: Names, placement: Placement) -> tuple[TirStmt, ...]:
    """The kernel's mesh scope around the one op; its threads take elements in turn, so that blocks may be few."""
    call = _only_call(spec)
    if placement.thread_count % _WARP:
        placement.refuse("a block is whole warps", whole_instances(spec))
    if call.op.name in _CHECKS:
        _CHECKS[call.op.name](call, spec, placement)
    rule = CUDA_WHOLE_OPS.get(call.op.name) or WHOLE_OPS[call.op.name]
    return (placement.scope(rule(call, spec, names)),)


def _by_element(call: Call, spec: KernelSpec) -> Instances:
    return Instances(ceildiv(product(spec.outputs[0].shape), BLOCK * 4), (BLOCK,), ("block", "t"))


def _by_pair(call: Call, spec: KernelSpec) -> Instances:
    """A thread for every two elements where they are few, in small blocks, which spread better and join others."""
    size = product(spec.outputs[0].shape)
    if not isinstance(size, int) or size > _FEW_BLOCKS * 2 * _SMALL_BLOCK:
        return _by_element(call, spec)
    return Instances(ceildiv(size, 2 * _SMALL_BLOCK), (_SMALL_BLOCK,), ("block", "t"))


def _by_warp(call: Call, spec: KernelSpec) -> Instances:
    """A warp for every element of the result, as far as there are threads for them."""
    return Instances(ceildiv(product(spec.outputs[0].shape), BLOCK), (BLOCK,), ("block", "t"))


def _by_row(call: Call, spec: KernelSpec) -> Instances:
    """A block for every long row, else as ``_by_warp``."""
    x = call.args[0].type
    assert isinstance(x, TensorType)
    extent = x.shape[call.attr("axis")]
    if isinstance(extent, int) and extent >= _LONG_ROW:
        return Instances(product(spec.outputs[0].shape), (_WIDEST,), ("block", "t"))
    return _by_warp(call, spec)


def _by_window(call: Call, spec: KernelSpec) -> Instances:
    """As ``_by_element``, of few blocks: a caller that passes one tensor for both has the window alone written, and
    blocks without work cost their placing."""
    found = _by_element(call, spec)
    return replace(found, blocks=min(found.blocks, _MOST_BLOCKS)) if isinstance(found.blocks, int) else found


def _only_call(spec: KernelSpec) -> Call:
    bind = spec.function.stmts()[0]
    assert isinstance(bind, Bind) and isinstance(bind.value, Call)
    return bind.value


_WARP = 32
_WIDEST = 1024
_LONG_ROW = 4096
"""From so many elements on a row is a block's work; the runtime's rule."""
_MOST_BLOCKS = 264
_SMALL_BLOCK, _FEW_BLOCKS = 128, 132

_INSTANCES: dict[str, Callable[[Call, KernelSpec], Instances]] = {
    "argmax": _by_row,
    "topk": _by_warp,
    "conv2d": _by_warp,
    "grouped_matmul": _by_warp,
    "insert_slice": _by_window,
    "cache_update": _by_window,
    "rope": _by_pair,
    "attention": attention_instances,
}
_CHECKS: dict[str, Callable[[Call, KernelSpec, Placement], None]] = {"attention": check_attention}
"""What an op asks of a mesh beside whole warps."""


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
