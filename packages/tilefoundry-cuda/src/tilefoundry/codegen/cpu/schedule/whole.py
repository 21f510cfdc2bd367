"""Kernels that are one whole-tensor op of the runtime."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tilefoundry.codegen.cpu.schedule.contraction import view_expr
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Bind, Call
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.copying import Names
from tilefoundry.ir.tir.stmt import Evaluate, TirStmt
from tilefoundry.ir.types import Dim

if TYPE_CHECKING:
    from tilefoundry.codegen.cpu.schedule.kernel import KernelSpec

__all__ = ["WHOLE_OPS", "is_whole_op", "schedule_whole"]


def is_whole_op(function: Function) -> bool:
    """True where the kernel is one op that no nest computes."""
    stmts = function.stmts()
    return len(stmts) == 1 and isinstance(stmts[0], Bind) and _op_name(stmts[0]) in WHOLE_OPS


def schedule_whole(spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    """The statements of the one op."""
    (bind,) = spec.function.stmts()
    assert isinstance(bind, Bind) and isinstance(bind.value, Call)
    return WHOLE_OPS[bind.value.op.name](bind.value, spec, names)


def _op_name(bind: Bind) -> str:
    return bind.value.op.name if isinstance(bind.value, Call) else ""


def _copy(source: View, target: View) -> TirStmt:
    return Evaluate("copy", (view_expr(source), view_expr(target)))


def _window(view: View, axis: int, start: Dim, size: Dim) -> View:
    starts: list[Dim] = [0] * len(view.shape)
    sizes = list(view.shape)
    starts[axis], sizes[axis] = start, size
    return view.slice(tuple(starts), tuple(sizes), (1,) * len(view.shape))


def _inputs(call: Call, spec: KernelSpec) -> list[View]:
    """One view per operand; an operand given twice is one parameter."""
    by_name = {param.name: view for param, view in zip(spec.function.params, spec.inputs, strict=True)}
    return [by_name[arg.name] for arg in call.args if hasattr(arg, "name")]  # type: ignore[union-attr]  # variables only


def _concat(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    axis = call.attr("axis")
    out: list[TirStmt] = []
    at: Dim = 0
    for view in _inputs(call, spec):
        size = view.shape[axis]
        out.append(_copy(view, _window(spec.outputs[0], axis, at, size)))
        at = at + size
    return tuple(out)


def _stack(call: Call, spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    axis = call.attr("axis")
    out: list[TirStmt] = []
    for i, view in enumerate(_inputs(call, spec)):
        target = _window(spec.outputs[0], axis, i, 1)
        dropped = View(
            target.buffer,
            target.dtype,
            target.shape[:axis] + target.shape[axis + 1 :],
            target.strides[:axis] + target.strides[axis + 1 :],
            target.offset,
        )
        out.append(_copy(view, dropped))
    return tuple(out)


WHOLE_OPS: dict[str, Callable[[Call, KernelSpec, Names], tuple[TirStmt, ...]]] = {
    "concat": _concat,
    "stack": _stack,
}
"""HIR op -> statements that compute it from views; everything here is one kernel of its own."""
