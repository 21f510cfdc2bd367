"""Choose how a kernel runs and write its PrimFunction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilefoundry.codegen.cpu.nest import Nest
from tilefoundry.codegen.cpu.schedule.columns import schedule_columns
from tilefoundry.codegen.cpu.schedule.contraction import schedule_contraction
from tilefoundry.codegen.cpu.schedule.plan import Plan
from tilefoundry.codegen.cpu.schedule.rows import row_is_contiguous, schedule_rows
from tilefoundry.codegen.cpu.schedule.scope import as_index, buffer_var
from tilefoundry.codegen.cpu.schedule.whole import is_whole_op, schedule_whole
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Bind, Call, For, MeshScope, Stmt, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Abort, Apply, Comment, Guard, PrimFunction, TirStmt
from tilefoundry.ir.types import Dim, DimExpr, DimVar, DType, TensorType, TupleType, bounds, dim_vars, scalar
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import PERSISTENT

__all__ = ["KernelSpec", "bind_text", "comments_of", "empty_checks", "kernel_params", "nest_of", "schedule"]


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """A kernel and where its operands lie.

    Attributes:
        function: its HIR; parameters and results are tensors.
        inputs: one view per parameter.
        outputs: one view per result.
    """

    function: Function
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]

    def dims(self) -> tuple[str, ...]:
        """Names of the extents that the kernel depends on, in alphabetical order; those of its own loops are not."""
        found: dict[str, None] = {}
        for view in (*self.inputs, *self.outputs):
            for dim in (*view.shape, *view.strides, view.offset):
                found.update((var.name, None) for var in dim_vars(dim))
        own: set[str] = {PERSISTENT.name}
        for stmt in self.function.stmts():
            if isinstance(stmt, For):
                own |= {stmt.index.name} | ({stmt.window.name} if stmt.window is not None else set())
            for dim in _dims_of(stmt):
                found.update((var.name, None) for var in dim_vars(dim))
        return tuple(sorted(name for name in found if name not in own))


def _dims_of(stmt: Stmt) -> tuple[Dim, ...]:
    if isinstance(stmt, For):
        return (stmt.start, stmt.stop, stmt.step)
    if isinstance(stmt, MeshScope):
        return tuple(stmt.mesh.layout.shape)
    bind = stmt
    types = [bind.target.type, *(arg.type for arg in bind.value.args)]
    attrs = [value for _, value in bind.value.attrs] if isinstance(bind.value, Call) else []
    found: list[Dim] = []
    pending: list[object] = [*types, *attrs]
    while pending:
        value = pending.pop()
        if isinstance(value, TensorType):
            found.extend(value.shape)
        elif isinstance(value, TupleType):
            pending.extend(value.elements)
        elif isinstance(value, tuple):
            pending.extend(value)
        elif isinstance(value, (DimVar, DimExpr)):
            found.append(value)
    return tuple(found)


def schedule(spec: KernelSpec) -> PrimFunction:
    """The kernel's loops.

    Its parameters are the buffers, inputs before outputs, then the extents as i64 scalars, which are marked
    constant and passed by value.
    """
    function = spec.function
    params, names = kernel_params(spec)
    if is_whole_op(function):
        body: tuple[TirStmt, ...] = schedule_whole(spec, names)
    else:
        body = _scheduled_nest(spec, names)
    return PrimFunction(function.name, params, (*comments_of(function), *body), 0)


def kernel_params(spec: KernelSpec) -> tuple[tuple[Var, ...], Names]:
    """A kernel's parameters, buffers before extents, and a giver of names that are none of theirs."""
    dims = spec.dims()
    buffers = _unique_buffers(spec)
    names = Names([*dims, *(var.name for var in buffers)])
    return (*buffers, *(Var(scalar(DType.i64), name, is_const=True) for name in dims)), names


def _unique_buffers(spec: KernelSpec) -> tuple[Var, ...]:
    found: dict[str, Var] = {}
    for view in (*spec.inputs, *spec.outputs):
        found.setdefault(view.buffer, buffer_var(view))
    return tuple(found.values())


def comments_of(function: Function) -> list[Comment]:
    """What the kernel computes, one line per op."""
    return [Comment(bind_text(stmt)) for stmt in function.stmts() if isinstance(stmt, Bind)]


def bind_text(bind: Bind) -> str:
    """One op as a line, for comments and messages."""
    call = bind.value
    assert isinstance(call, Call)
    parts = [str(arg.value) if not isinstance(arg, Var) else arg.name for arg in call.args]
    parts += [f"{name}={_attr_text(value)}" for name, value in call.attrs if value is not None]
    return f"{bind.target.name} = tf.{call.op.name}({', '.join(parts)}): {call.type}"


def _attr_text(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_attr_text, value)) + ")"
    return str(getattr(value, "value", value))


def nest_of(spec: KernelSpec) -> tuple[Plan, tuple[str, ...]]:
    """The plan of a kernel whose ops share a loop nest, and the names of its gathers.

    Raises:
        LoweringError: they share none.
    """
    function = spec.function
    assert function.body is not None
    binds = [stmt for stmt in function.body.stmts if isinstance(stmt, Bind)]
    nest = Nest.of(binds, grow=True)
    if nest is None:
        raise LoweringError(
            f"{function.name}: its ops do not share one loop nest; let the placement pass split them"
        )
    outputs = tuple(atom.name for atom in function.body.results if isinstance(atom, Var))
    gathers = tuple(b.target.name for b in binds if _op(b) == "index_select")
    return Plan(nest, _views(spec, outputs), outputs), gathers


def _scheduled_nest(spec: KernelSpec, names: Names) -> tuple[TirStmt, ...]:
    plan, gathers = nest_of(spec)
    faults = {name: Var(scalar(DType.i64), names.fresh("fault")) for name in gathers}
    body = _loops(plan, names, faults)
    for name, fault in faults.items():
        table = plan.call(name).args[0]
        assert isinstance(table.type, TensorType)
        extent = table.type.shape[plan.call(name).attr("dim")]
        body = (Guard(fault, "index_select", extent, body),)
    return (*empty_checks(plan), *body)


def _loops(plan: Plan, names: Names, faults: Mapping[str, Var]) -> tuple[TirStmt, ...]:
    known = dict(faults)
    if plan.nest.matmul is not None:
        return schedule_contraction(plan, names, known)
    if plan.nest.reduced and not row_is_contiguous(plan):
        return schedule_columns(plan, names, known)
    return schedule_rows(plan, names, known)


def _views(spec: KernelSpec, outputs: tuple[str, ...]) -> dict[str, View]:
    views = {param.name: view for param, view in zip(spec.function.params, spec.inputs, strict=True)}
    views.update({f"{name}:out": view for name, view in zip(outputs, spec.outputs, strict=True)})
    return views


def empty_checks(plan: Plan) -> tuple[TirStmt, ...]:
    """A maximum over nothing has no value; where extents allow it, the kernel looks before it runs.

    One that ends only in results along the joined axes, as in a softmax, is not wanted where those are empty.
    """
    wanted_by_rows = _behind(
        plan, [n for n in plan.outputs if not set(plan.nest.reduced) <= set(plan.maps[n])]
    )
    extremes = [
        name
        for name in plan.binds
        if plan.is_reduction(name)
        and name in wanted_by_rows
        and plan.call(name).attr("kind") in (ReduceKind.MAX, ReduceKind.MIN, ReduceKind.ABSMAX)
    ]
    count = plan.reduced_count
    if not extremes or bounds(count)[0] > 0:
        return ()
    rows = product(plan.nest.extents[axis] for axis in plan.nest.kept)
    boolean = scalar(DType.bool_)
    empty = Apply(boolean, "cmp_eq", (as_index(count), as_index(0)))
    wanted = Apply(boolean, "cmp_gt", (as_index(rows), as_index(0)))
    kind = plan.call(extremes[0]).attr("kind").value
    message = f"tf.reduce: {kind} over an empty axis has no value"
    return (Abort(Apply(boolean, "logical_and", (empty, wanted)), "ValueError", message),)


def _behind(plan: Plan, names: list[str]) -> set[str]:
    """The binds of the nest that the values called ``names`` are made of, themselves included."""
    found: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name in plan.binds and name not in found:
            found.add(name)
            pending += [arg.name for arg in plan.call(name).args if isinstance(arg, Var)]
    return found


def _op(bind: Bind) -> str:
    return bind.value.op.name if isinstance(bind.value, Call) else ""
