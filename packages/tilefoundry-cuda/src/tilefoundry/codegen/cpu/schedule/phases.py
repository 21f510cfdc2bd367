"""The loops over one row of a nest: one pass per layer of reductions, values kept between passes where that pays."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.nest import ARRANGE
from tilefoundry.codegen.cpu.schedule.plan import Access, Loop, Plan, sample
from tilefoundry.codegen.cpu.schedule.scope import Scope, as_index, buffer_var, index_var
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import (
    SCALAR_OPS,
    Accumulate,
    Accumulator,
    Allocate,
    Apply,
    For,
    Let,
    Load,
    Store,
    TirStmt,
    compute_dtype,
)
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["RowPasses", "accumulator_dtype", "final_value", "lent_outputs", "spilled_values"]

_RECOMPUTE = 4
"""Scalar operations up to which a value is computed again in a later pass instead of being kept."""


def accumulator_dtype(dtype: DType) -> DType:
    """The type in which elements of ``dtype`` are reduced."""
    return compute_dtype(dtype) if dtype.is_float else DType.i64


def final_value(plan: Plan, name: str, total: Expr) -> Expr:
    """The reduction's value from its joined elements, in the compute type of its result."""
    call = plan.call(name)
    assert isinstance(call.type, TensorType)
    dtype = compute_dtype(call.type.dtype)
    if call.attr("kind") is ReduceKind.MEAN:
        count = Apply(scalar(dtype), "cast", (as_index(plan.reduced_count),), (("dtype", dtype),))
        return Apply(scalar(dtype), "div", (total, count))
    return total if dtype.is_float else Apply(scalar(dtype), "cast", (total,), (("dtype", dtype),))


def spilled_values(plan: Plan) -> tuple[str, ...]:
    """Full values that a later pass needs and that cost too much to compute again."""
    wanted: dict[str, None] = {}
    memo: dict[str, int] = {}

    def again(name: str) -> int:
        """Cost of computing the value anew from memory and row values."""
        if name not in memo:
            call = plan.call(name)
            own = (
                0
                if call.op.name in ARRANGE
                else SCALAR_OPS[call.op.name].cost
                if call.op.name in SCALAR_OPS
                else 1
            )
            inside = [
                a.name
                for a in call.args
                if isinstance(a, Var) and a.name in plan.binds and plan.is_full(a.name)
            ]
            memo[name] = own + sum(again(one) for one in inside)
        return memo[name]

    for name in plan.binds:
        if not plan.is_full(name) and not plan.is_reduction(name):
            continue
        for arg in plan.call(name).args:
            if not isinstance(arg, Var) or arg.name not in plan.binds or not plan.is_full(arg.name):
                continue
            at = plan.phase(name) - plan.is_reduction(name)
            if (
                plan.phase(arg.name) < at
                and plan.call(arg.name).op.name != "matmul"
                and again(arg.name) > _RECOMPUTE
            ):
                wanted.setdefault(arg.name)
    return tuple(wanted)


def lent_outputs(plan: Plan, kept: tuple[str, ...], inner: Loop) -> dict[str, Access]:
    """Kept value -> the place of an output of its type that is written later, at the same coordinates and last of all.

    The row of such an output has to be brought into the cache anyway: done while the value is computed, that costs no
    time, and the row needs no memory of its own.
    """
    last = max(plan.phase(name) for name in plan.outputs)
    reads = {access.view.buffer for access in plan.accesses()} - {
        plan.store(o).view.buffer for o in plan.outputs
    }
    lent: dict[str, Access] = {}
    for output in plan.outputs:
        access = plan.store(output)
        if access.view.buffer in reads or access.stride(inner.axis) != 1 or plan.phase(output) != last:
            continue
        if any(axis not in access.axes for axis, extent in enumerate(plan.nest.extents) if extent != 1):
            continue
        fitting = (name for name in kept if name not in lent and _fits(plan, name, output, access.view.dtype))
        found = next(fitting, None)
        if found is not None:
            lent[found] = access
    return lent


def _fits(plan: Plan, name: str, output: str, dtype: DType) -> bool:
    type_ = plan.call(name).type
    assert isinstance(type_, TensorType)
    earlier = plan.phase(name) < plan.phase(output) and name not in plan.outputs
    return earlier and compute_dtype(type_.dtype) is dtype


@dataclass(slots=True)
class RowPasses:
    """Writes the passes over the inner loops of one row.

    Attributes:
        plan: the nest.
        row: the scope of the row; its statements receive the loops.
        loops: the inner loops, outermost first; the last is the vector loop.
        bounds: start and stop of the vector loop.
        buffers: kept value -> its row buffer.
        lent: kept value -> the place of the output that it is kept in.
    """

    plan: Plan
    row: Scope
    loops: tuple[Loop, ...]
    bounds: tuple[Dim, Dim]
    buffers: dict[str, Var] = field(default_factory=dict)
    lent: dict[str, Access] = field(default_factory=dict)

    def write(self) -> None:
        """Append every pass, then the stores of values that are one per row."""
        for phase in range(self._phase_count()):
            self._pass(phase)
        for name in self.plan.outputs:
            if not self._is_inner(name):
                self._store(self.row, name, self.row.value(self.plan.binds[name].target))

    def _phase_count(self) -> int:
        plan = self.plan
        tops = [plan.phase(name) for name in plan.binds if plan.is_reduction(name)]
        return max([*tops, *(plan.phase(n) + 1 for n in plan.outputs if self._is_inner(n))], default=0)

    def _is_inner(self, name: str) -> bool:
        return bool({loop.axis for loop in self.loops} & set(self.plan.maps[name]))

    def _pass(self, phase: int) -> None:
        plan = self.plan
        reductions = [n for n in plan.binds if plan.is_reduction(n) and plan.phase(n) == phase + 1]
        kept = [n for n in (*self.buffers, *self.lent) if plan.phase(n) == phase]
        outputs = [n for n in plan.outputs if self._is_inner(n) and plan.phase(n) == phase]
        if not (reductions or kept or outputs):
            return
        totals = {name: self._accumulator(name) for name in reductions}
        coords: dict[int, Dim] = {
            loop.axis: DimVar(self.row.names.fresh("j"), 0, 2**62) for loop in self.loops
        }
        scope = self.row.inner(dict(coords))
        self._recall(scope, phase)
        values = {name: scope.value(plan.binds[name].target) for name in (*kept, *outputs)}
        operands = {name: self._operand(scope, name) for name in reductions}
        for name in kept:
            scope.stmts.append(Store(*self._place(scope, name, coords), values[name]))
        for name in reductions:
            scope.stmts.append(Accumulate(totals[name], plan.call(name).attr("kind"), operands[name]))
        for name in outputs:
            self._store(scope, name, values[name])
        self.row.stmts.append(self._nested(coords, tuple(scope.stmts)))
        for name in reductions:
            self.row.keep(name, name, final_value(plan, name, totals[name]))

    def _accumulator(self, name: str) -> Var:
        call = self.plan.call(name)
        assert isinstance(call.type, TensorType)
        target = Var(scalar(accumulator_dtype(call.type.dtype)), self.row.names.fresh(f"{name}_total"))
        self.row.stmts.append(Accumulator(target, call.attr("kind")))
        return target

    def _operand(self, scope: Scope, name: str) -> Expr:
        value = scope._operand(name, 0)
        call = self.plan.call(name)
        assert isinstance(call.type, TensorType)
        dtype = accumulator_dtype(call.type.dtype)
        assert isinstance(value.type, TensorType)
        if value.type.dtype is dtype:
            return value
        return Apply(scalar(dtype), "cast", (value,), (("dtype", dtype),))

    def _recall(self, scope: Scope, phase: int) -> None:
        """Kept values of earlier passes are read from their buffers."""
        coords = {loop.axis: scope.coords[loop.axis] for loop in self.loops}
        for name in (*self.buffers, *self.lent):
            if self.plan.phase(name) < phase:
                scope.known[name] = Load.of(*self._place(scope, name, coords))

    def _place(self, scope: Scope, name: str, coords: dict[int, Dim]) -> tuple[Var, Dim]:
        """Buffer and element of a kept value at this point."""
        access = self.lent.get(name)
        if access is None:
            return self.buffers[name], self._flat(coords)
        return buffer_var(access.view), scope.index(access.view, access.axes)

    def _flat(self, coords: dict[int, Dim]) -> Dim:
        total: Dim = 0
        for loop in self.loops:
            total = product((total, loop.extent)) + coords[loop.axis]
        return total - self.bounds[0] if len(self.loops) == 1 else total

    def _nested(self, coords: dict[int, Dim], body: tuple[TirStmt, ...]) -> TirStmt:
        last = self.loops[-1]
        index = coords[last.axis]
        assert isinstance(index, DimVar)
        stmt: TirStmt = For(index_var(index.name), *self.bounds, body, "vector")
        for loop in reversed(self.loops[:-1]):
            outer = coords[loop.axis]
            assert isinstance(outer, DimVar)
            stmt = For(index_var(outer.name), 0, loop.extent, (stmt,))
        return stmt

    def _store(self, scope: Scope, name: str, value: Expr) -> None:
        access = self.plan.store(name)
        scope.stmts.append(Store(buffer_var(access.view), scope.index(access.view, access.axes), value))


def row_buffers(
    plan: Plan, names: tuple[str, ...], scope: Scope, size: Dim
) -> tuple[dict[str, Var], list[TirStmt]]:
    """A buffer of ``size`` elements per value that is kept between passes."""
    buffers: dict[str, Var] = {}
    stmts: list[TirStmt] = []
    for name in names:
        call = plan.call(name)
        assert isinstance(call.type, TensorType)
        buffer = Var(TensorType((), compute_dtype(call.type.dtype)), scope.names.fresh(f"{name}_row"))
        buffers[name] = buffer
        stmts.append(Allocate(buffer, size))
    return buffers, stmts


def coordinates(
    item: Dim, loops: tuple[Loop, ...], scope_names: Scope
) -> tuple[dict[int, Dim], list[TirStmt]]:
    """Coordinates of the loops at row-major position ``item``, and the statements that compute them."""
    coords: dict[int, Dim] = {}
    stmts: list[TirStmt] = []
    rest = item
    for loop in reversed(loops[1:]):
        i64 = scalar(DType.i64)
        at = index_var(scope_names.names.fresh("i"))
        stmts.append(Let(at, Apply(i64, "mod", (as_index(rest), as_index(loop.extent)))))
        above = index_var(scope_names.names.fresh("i"))
        stmts.append(Let(above, Apply(i64, "floor_div", (as_index(rest), as_index(loop.extent)))))
        coords[loop.axis] = DimVar(at.name, 0, 2**62)
        rest = DimVar(above.name, 0, 2**62)
    if loops:
        coords[loops[0].axis] = rest
    return coords, stmts


def is_large(dim: Dim, limit: int) -> bool:
    """True where ``dim`` may well exceed ``limit``."""
    return (not isinstance(dim, int) and sample(dim) > 0) or (isinstance(dim, int) and dim > limit)
