"""Choose how a kernel runs on a GPU and write its PrimFunction."""

from __future__ import annotations

from dataclasses import replace

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
from tilefoundry.codegen.cuda.open_scopes import open_scope, without_scope
from tilefoundry.codegen.cuda.schedule.columns import column_instances, schedule_columns
from tilefoundry.codegen.cuda.schedule.computed import computed_instances, schedule_computed
from tilefoundry.codegen.cuda.schedule.contraction import contraction_instances, schedule_contraction
from tilefoundry.codegen.cuda.schedule.instances import Instances, Placement
from tilefoundry.codegen.cuda.schedule.prologues import prologue_refusal
from tilefoundry.codegen.cuda.schedule.row_shapes import row_shape
from tilefoundry.codegen.cuda.schedule.rows import schedule_rows
from tilefoundry.codegen.cuda.schedule.whole import CUDA_WHOLE_OPS, schedule_whole, whole_instances
from tilefoundry.ir.core.expr import Bind, Call, MeshScope, Var
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Guard, PrimFunction, TirStmt
from tilefoundry.ir.types import DType, TensorType, scalar

__all__ = ["accepts", "instances_for", "rows_of", "schedule"]


def instances_for(spec: KernelSpec) -> Instances:
    """The instances that suit a kernel without scopes best."""
    if _is_whole(spec):
        return whole_instances(spec)
    plan, _ = nest_of(spec)
    if plan.nest.matmul is not None:
        return computed_instances(plan) if plan.nest.prologues else contraction_instances(plan)
    return column_instances(plan) if _joins_columns(plan) else row_shape(plan).instances


def schedule(spec: KernelSpec) -> PrimFunction:
    """The kernel under the mesh of its open scope. Parameters are buffers, inputs before outputs, then extents.

    Statements before the mesh scope are checks of extents; the host makes them before it launches. A kernel without
    a scope, a copy that only the memory of values asked for, gets the one that suits it.

    Raises:
        NotFollowed: the mesh does not fit what the kernel computes; the message says which one would.
    """
    params, names = kernel_params(spec)
    function = spec.function
    flat = replace(spec, function=without_scope(function))
    scope = open_scope(function)
    if scope is None:
        chosen = instances_for(flat)
        scope, levels = MeshScope("m", chosen.mesh, ()), chosen.levels
    else:
        levels = function.topologies or ()
    placement = Placement.of(function.name, scope, levels)
    body = schedule_whole(flat, names, placement) if _is_whole(flat) else _nest(flat, names, placement)
    return PrimFunction(function.name, params, (*comments_of(function), *body), 0)


def rows_of(spec: KernelSpec) -> Plan | None:
    """The plan of a flat kernel whose packs lie along its rows; None for one of another form."""
    first = spec.function.stmts()[0] if spec.function.stmts() else None
    if not isinstance(first, Bind) or _is_whole(spec):
        return None
    try:
        plan, _ = nest_of(spec)
    except LoweringError:
        return None  # ops of several nests are placed by their author
    return None if plan.nest.matmul is not None or _joins_columns(plan) else plan


def accepts(nest: Nest) -> bool:
    """Whether a group is to be one kernel: rows of a product are spread over blocks, so they are not joined in it, and
    its operands are computed only where that pays."""
    return (nest.matmul is None or not nest.reduced) and prologue_refusal(nest) is None


def _is_whole(spec: KernelSpec) -> bool:
    first = spec.function.stmts()[0]
    assert isinstance(first, Bind)
    return isinstance(first.value, Call) and first.value.op.name in _WHOLE


_WHOLE = frozenset(CUDA_WHOLE_OPS) | frozenset(WHOLE_OPS)


def _nest(spec: KernelSpec, names: Names, placement: Placement) -> tuple[TirStmt, ...]:
    plan, gathers = nest_of(spec)
    faults = {name: Var(scalar(DType.i64), names.fresh("fault")) for name in gathers}
    body = _scheduled(plan, names, dict(faults), placement)
    for name, fault in faults.items():
        table = plan.call(name).args[0]
        assert isinstance(table.type, TensorType)
        body = (Guard(fault, "index_select", table.type.shape[plan.call(name).attr("dim")], body),)
    return (*empty_checks(plan), *body)


def _scheduled(plan: Plan, names: Names, faults: dict[str, Var], placement: Placement) -> tuple[TirStmt, ...]:
    if plan.nest.prologues:
        return schedule_computed(plan, names, faults, placement)
    if plan.nest.matmul is not None:
        return schedule_contraction(plan, names, faults, placement)
    if _joins_columns(plan):
        return schedule_columns(plan, names, faults, placement)
    return schedule_rows(plan, names, faults, placement)


def _joins_columns(plan: Plan) -> bool:
    return bool(plan.nest.reduced) and not row_is_contiguous(plan)
