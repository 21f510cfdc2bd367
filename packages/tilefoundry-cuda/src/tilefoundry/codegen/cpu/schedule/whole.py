"""Kernels that are one whole-tensor op of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilefoundry.codegen.cpu.schedule.contraction import view_expr
from tilefoundry.codegen.cpu.schedule.scope import as_index, buffer_var, index_var
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Atom, Bind, Call, Constant, Expr
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Abort, Apply, Evaluate, Let, Load, PointerOf, Store, TirStmt, Verbatim
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, bounds, scalar
from tilefoundry.ir.types.dim import product

if TYPE_CHECKING:
    from tilefoundry.codegen.cpu.schedule.kernel import KernelSpec

__all__ = [
    "WHOLE_OPS",
    "abort_where_outside",
    "index_operand",
    "inputs_of",
    "is_whole_op",
    "loaded_index",
    "schedule_whole",
    "starts_of",
    "wants_dense",
    "window_of",
]


def is_whole_op(function: Function) -> bool:
    """True where the kernel is one op that no nest computes, with the elements taken from its tuple if it gives one."""
    stmts = function.stmts()
    return bool(stmts) and isinstance(stmts[0], Bind) and _op_name(stmts[0]) in WHOLE_OPS


def schedule_whole(spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    """The statements of the one op."""
    bind = spec.function.stmts()[0]
    assert isinstance(bind, Bind) and isinstance(bind.value, Call)
    return WHOLE_OPS[bind.value.op.name](bind.value, spec, names)


def _op_name(bind: Bind) -> str:
    return bind.value.op.name if isinstance(bind.value, Call) else ""


def _copy(source: View, target: View) -> TirStmt:
    return Evaluate("copy", (view_expr(source), view_expr(target)))


def window_of(view: View, axis: int, start: Dim, size: Dim) -> View:
    """The window ``[start, start + size)`` of one axis."""
    starts: list[Dim] = [0] * len(view.shape)
    sizes = list(view.shape)
    starts[axis], sizes[axis] = start, size
    return view.slice(tuple(starts), tuple(sizes), (1,) * len(view.shape))


def inputs_of(call: Call, spec: KernelSpec) -> list[View]:
    """One view per operand; an operand given twice is one parameter."""
    by_name = {param.name: view for param, view in zip(spec.function.params, spec.inputs, strict=True)}
    return [by_name[arg.name] for arg in call.args if hasattr(arg, "name")]  # type: ignore[union-attr]  # variables only


def _concat(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    axis = call.attr("axis")
    out: list[TirStmt] = []
    at: Dim = 0
    for view in inputs_of(call, spec):
        size = view.shape[axis]
        out.append(_copy(view, window_of(spec.outputs[0], axis, at, size)))
        at = at + size
    return tuple(out)


def _stack(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    axis = call.attr("axis")
    out: list[TirStmt] = []
    for i, view in enumerate(inputs_of(call, spec)):
        target = window_of(spec.outputs[0], axis, i, 1)
        dropped = View(
            target.buffer,
            target.dtype,
            target.shape[:axis] + target.shape[axis + 1 :],
            target.strides[:axis] + target.strides[axis + 1 :],
            target.offset,
        )
        out.append(_copy(view, dropped))
    return tuple(out)


def _axis_last(view: View, axis: int) -> View:
    rank = len(view.shape)
    return view.transpose((*(a for a in range(rank) if a != axis), axis))


def _axis_first(view: View, axis: int) -> View:
    rank = len(view.shape)
    return view.transpose((axis, *(a for a in range(rank) if a != axis)))


def _views(op: str, *views: View, attrs: tuple[tuple[str, Any], ...] = ()) -> Evaluate:
    return Evaluate(op, tuple(view_expr(view) for view in views), attrs)


def _argmax(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    (x,) = inputs_of(call, spec)
    axis = call.attr("axis")
    kept = [dim for i, dim in enumerate(x.shape) if i != axis]
    empty = _abort_where_empty(
        x.shape[axis], kept, f"tf.argmax: axis {axis} is empty, it has no greatest element"
    )
    return (*empty, _views("argmax", _axis_last(x, axis), spec.outputs[0]))


def _abort_where_empty(extent: Dim, kept: list[Dim], message: str) -> tuple[TirStmt, ...]:
    if bounds(extent)[0] > 0:
        return ()
    empty = _compare("cmp_eq", as_index(extent), as_index(0))
    wanted = _compare("cmp_gt", as_index(product(kept)), as_index(0))
    return (Abort(_compare("logical_and", empty, wanted), "ValueError", message),)


def _compare(op: str, left: Expr, right: Expr) -> Apply:
    return Apply(scalar(DType.bool_), op, (left, right))


def _topk(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    (x,) = inputs_of(call, spec)
    axis, k = call.attr("axis"), call.attr("k")
    values, indices = (_axis_last(view, axis) for view in spec.outputs)
    checks: tuple[TirStmt, ...] = ()
    if bounds(x.shape[axis])[0] < k:
        lacking = _compare("cmp_lt", as_index(x.shape[axis]), as_index(k))
        checks = (Abort(lacking, "ValueError", f"tf.topk: k={k} is more than axis {axis} holds"),)
    attrs = (("largest", call.attr("largest")),)
    return (*checks, _views("topk", _axis_last(x, axis), values, indices, attrs=attrs))


def _index_update(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    dst, index, src = inputs_of(call, spec)
    axis = call.attr("dim")
    moved = (_axis_first(dst, axis), index, _axis_first(src, axis), _axis_first(spec.outputs[0], axis))
    return (_views(call.op.name, *moved),)


def starts_of(
    given: tuple[Dim | None, ...], operands: list[View], names: Names, call: Call, *, first: int = 2
) -> tuple[list[Dim], list[TirStmt]]:
    """Starts as dims; those that are values, the operands from ``first`` on, are loaded first."""
    values = iter(operands)
    literals = iter(call.args[first:])
    starts: list[Dim] = []
    stmts: list[TirStmt] = []
    for start in given:
        if start is not None:
            starts.append(start)
            continue
        atom = next(literals)
        if isinstance(atom, Constant):
            starts.append(int(atom.value))
            continue
        starts.append(loaded_index(next(values), names, stmts))
    return starts, stmts


def index_operand(atom: Atom, spec: KernelSpec, names: Names, stmts: list[TirStmt]) -> Dim:
    """An integer operand of one element: a number of the program, or loaded."""
    if isinstance(atom, Constant):
        return int(atom.value)
    views = {param.name: view for param, view in zip(spec.function.params, spec.inputs, strict=True)}
    return loaded_index(views[atom.name], names, stmts)


def loaded_index(view: View, names: Names, stmts: list[TirStmt]) -> DimVar:
    """The one element of ``view`` as an index."""
    target = index_var(names.fresh(f"{view.buffer}_value"))
    wide = Apply(
        scalar(DType.i64), "cast", (Load.of(buffer_var(view), view.offset),), (("dtype", DType.i64),)
    )
    stmts.append(Let(target, wide))
    return DimVar(target.name, 0, 2**62)


def abort_where_outside(op: str, start: Dim, size: Dim, extent: Dim, axis: int) -> tuple[TirStmt, ...]:
    """A check that a window lies inside, where that is not known before the call."""
    if isinstance(start, int) and bounds(extent - size - start)[0] >= 0:
        return ()
    low = _compare("cmp_lt", as_index(start), as_index(0))
    # The size is known to be small; the start may be any value, and a sum with it may wrap.
    high = _compare("cmp_gt", as_index(start), as_index(extent - size))
    message = f"tf.{op}: the window of axis {axis} leaves its extent"
    return (Abort(_compare("logical_or", low, high), "ValueError", message),)


def _insert_slice(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    dst, update, *operands = inputs_of(call, spec)
    starts, stmts = starts_of(call.attr("offsets"), operands, names, call)
    for axis, (start, size, extent) in enumerate(zip(starts, update.shape, dst.shape, strict=True)):
        stmts.extend(abort_where_outside("insert_slice", start, size, extent, axis))
    window = spec.outputs[0].slice(tuple(starts), update.shape, (1,) * len(starts))
    return (*stmts, _copy(dst, spec.outputs[0]), _copy(update, window))


def _cache_update(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    cache, *_, new = inputs_of(call, spec)
    stmts: list[TirStmt] = []
    start, length = (index_operand(arg, spec, names, stmts) for arg in call.args[1:3])
    short = _compare("cmp_lt", as_index(length), as_index(0))
    long = _compare("cmp_gt", as_index(length), as_index(new.shape[1]))
    message = "tf.cache_update: s is negative or more than the length of new"
    stmts.append(Abort(_compare("logical_or", short, long), "ValueError", message))
    stmts.extend(abort_where_outside("cache_update", start, length, cache.shape[1], 1))
    window = window_of(spec.outputs[0], 1, start, length)
    return (*stmts, _copy(cache, spec.outputs[0]), _copy(window_of(new, 1, 0, length), window))


def _rope(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    q, k, cosine, sine, positions = inputs_of(call, spec)
    rows = positions
    if len(rows.shape) == 1:
        rows = View(rows.buffer, rows.dtype, (1, *rows.shape), (0, *rows.strides), rows.offset)
    elif rows.shape[0] == 1:
        rows = View(rows.buffer, rows.dtype, rows.shape, (0, rows.strides[1]), rows.offset)
    return tuple(
        _views("rope", x, cosine, sine, rows, out) for x, out in zip((q, k), spec.outputs, strict=True)
    )


def _grouped_matmul(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    return (_views("grouped_matmul", *inputs_of(call, spec), spec.outputs[0]),)


def _conv2d(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    x, weight, *bias = inputs_of(call, spec)
    out = spec.outputs[0]
    pairs = (f"{{{a}, {b}}}" for a, b in map(call.attr, ("stride", "padding", "dilation")))
    geometry = Verbatim.of(f"ops::ConvGeometry{{{', '.join(pairs)}, {call.attr('groups')}}}")
    stmts: list[TirStmt] = []
    for axis in (2, 3):
        if bounds(out.shape[axis])[0] < 1:
            small = _compare("cmp_lt", as_index(out.shape[axis]), as_index(1))
            stmts.append(Abort(small, "ValueError", "tf.conv2d: x is smaller than the kernel's reach"))
    pointer: Expr = (
        PointerOf(view_expr(bias[0]).type, buffer_var(bias[0]), bias[0].offset)
        if bias
        else Verbatim.of(f"static_cast<{_cxx(x.dtype)} const*>(nullptr)")
    )
    return (*stmts, Evaluate("conv2d", (view_expr(x), view_expr(weight), pointer, view_expr(out), geometry)))


def _cxx(dtype: DType) -> str:
    return dtype.name


def _shape_of(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    x = call.args[0].type
    assert isinstance(x, TensorType)
    out = spec.outputs[0]
    return tuple(Store(buffer_var(out), out.offset + i, as_index(dim)) for i, dim in enumerate(x.shape))


def _rank(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    x = call.args[0].type
    assert isinstance(x, TensorType)
    return (Store(buffer_var(spec.outputs[0]), spec.outputs[0].offset, as_index(x.rank)),)


WHOLE_OPS: dict[str, Callable[[Call, KernelSpec, Names], tuple[TirStmt, ...]]] = {
    "concat": _concat,
    "stack": _stack,
    "argmax": _argmax,
    "topk": _topk,
    "index_add": _index_update,
    "index_copy": _index_update,
    "insert_slice": _insert_slice,
    "cache_update": _cache_update,
    "rope": _rope,
    "grouped_matmul": _grouped_matmul,
    "conv2d": _conv2d,
    "shape_of": _shape_of,
    "rank": _rank,
}
"""HIR op -> statements that compute it from views; everything here is one kernel of its own."""

DENSE_OPERANDS: dict[str, tuple[int, ...]] = {"conv2d": (1, 2)}
"""Operands that an op reads as one dense run; other views of them are copied before."""


def wants_dense(kernel: Function, position: int) -> bool:
    """Whether the one op of ``kernel`` reads this parameter as a dense run."""
    stmts = kernel.stmts()
    if not stmts or not isinstance(stmts[0], Bind) or not isinstance(stmts[0].value, Call):
        return False
    call = stmts[0].value
    wanted = DENSE_OPERANDS.get(call.op.name, ())
    return any(
        call.args[i] == replace(kernel.params[position], is_const=False) for i in wanted if i < len(call.args)
    )
