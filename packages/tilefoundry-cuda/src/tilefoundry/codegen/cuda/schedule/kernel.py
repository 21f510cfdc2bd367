"""Choose how a kernel runs on a GPU and write its PrimFunction."""

from __future__ import annotations

from tilefoundry.codegen.cpu.nest import Nest
from tilefoundry.codegen.cpu.schedule.kernel import (
    KernelSpec,
    comments_of,
    empty_checks,
    kernel_params,
    nest_of,
)
from tilefoundry.codegen.cpu.schedule.plan import Plan
from tilefoundry.codegen.cpu.schedule.rows import row_is_contiguous
from tilefoundry.codegen.cpu.schedule.whole import WHOLE_OPS
from tilefoundry.codegen.cuda.schedule.columns import schedule_columns
from tilefoundry.codegen.cuda.schedule.contraction import schedule_contraction
from tilefoundry.codegen.cuda.schedule.rows import schedule_rows
from tilefoundry.codegen.cuda.schedule.whole import CUDA_WHOLE_OPS, schedule_whole
from tilefoundry.ir.core.expr import Bind, Call, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Guard, PrimFunction, TirStmt
from tilefoundry.ir.types import DType, TensorType, scalar

__all__ = ["accepts", "schedule"]


def schedule(spec: KernelSpec) -> PrimFunction:
    """The kernel under its mesh. Parameters are buffers, inputs before outputs, then extents passed by value.

    Statements before the mesh scope are checks of extents; the host makes them before it launches.
    """
    params, names = kernel_params(spec)
    body = schedule_whole(spec, names) if _is_whole(spec) else _nest(spec, names)
    return PrimFunction(spec.function.name, params, (*comments_of(spec.function), *body), 0)


def accepts(nest: Nest) -> bool:
    """Whether a group can be one kernel: rows of a product are spread over blocks, so they are not joined in it."""
    return nest.matmul is None or not nest.reduced


def _is_whole(spec: KernelSpec) -> bool:
    first = spec.function.stmts()[0]
    assert isinstance(first, Bind)
    return isinstance(first.value, Call) and first.value.op.name in _WHOLE


_WHOLE = frozenset(CUDA_WHOLE_OPS) | frozenset(WHOLE_OPS)


def _nest(spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    plan, gathers = nest_of(spec)
    faults = {name: Var(scalar(DType.i64), names.fresh("fault")) for name in gathers}
    body = _scheduled(plan, names, dict(faults))
    for name, fault in faults.items():
        table = plan.call(name).args[0]
        assert isinstance(table.type, TensorType)
        body = (Guard(fault, "index_select", table.type.shape[plan.call(name).attr("dim")], body),)
    return (*empty_checks(plan), *body)


def _scheduled(plan: Plan, names: Names, faults: dict[str, Var]) -> tuple[TirStmt, ...]:
    if plan.nest.matmul is not None:
        return schedule_contraction(plan, names, faults)
    if plan.nest.reduced and not row_is_contiguous(plan):
        return schedule_columns(plan, names, faults)
    return schedule_rows(plan, names, faults)
