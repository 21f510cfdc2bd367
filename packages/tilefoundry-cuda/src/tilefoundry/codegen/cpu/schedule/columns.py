"""Nests that reduce over outer axes: blocks of columns, each column with its own accumulators."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.schedule.phases import accumulator_dtype, coordinates, final_value
from tilefoundry.codegen.cpu.schedule.plan import Loop, Plan
from tilefoundry.codegen.cpu.schedule.rows import leading_access
from tilefoundry.codegen.cpu.schedule.scope import Scope, as_index, buffer_var, index_var
from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Allocate, Apply, For, Let, Load, Parallel, Store, TirStmt, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, ceildiv, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["schedule_columns"]

_BLOCK = 256
"""Columns that one item covers; their accumulators lie on the stack."""


def schedule_columns(plan: Plan, names: Names, faults: dict[str, Var]) -> tuple[TirStmt, ...]:
    """The loops of the nest: an item is a block of columns, over which the reduced loops run outside."""
    lead = leading_access(plan) if any(plan.is_full(n) for n in plan.outputs) else _widest_read(plan)
    kept = plan.loops(plan.memory_order(plan.nest.kept, lead))
    reduced = plan.loops(plan.memory_order(tuple(plan.nest.reduced), lead))
    *outer, column = kept
    begin, end, item = (index_var(names.fresh(n)) for n in ("begin", "end", "item"))
    scope = Scope(plan, names, {}, faults=faults)
    blocks = ceildiv(column.extent, _BLOCK)
    coords, lets = coordinates(_dim(item), (*outer, Loop(-1, blocks)), scope)
    start = product((coords.pop(-1), _BLOCK))
    stop = index_var(names.fresh("stop"))
    scope.coords = coords
    smaller = Apply(scalar(DType.i64), "minimum", (as_index(start + _BLOCK), as_index(column.extent)))
    scope.stmts.extend([*lets, Let(stop, smaller)])
    _Block(plan, scope, column, reduced, (start, _dim(stop))).write()
    loop = For(item, _dim(begin), _dim(end), tuple(scope.stmts))
    extent = product([*(one.extent for one in outer), blocks])
    cost = product((plan.reduced_count, _BLOCK, plan.cost()))
    return (Parallel(begin, end, extent, cost, (loop,)),)


@dataclass(slots=True)
class _Block:
    plan: Plan
    block: Scope
    column: Loop
    reduced: tuple[Loop, ...]
    bounds: tuple[Dim, Dim]
    arrays: dict[str, Var] = field(default_factory=dict)

    def write(self) -> None:
        """Append the passes over the block, then the stores of values that are one per column."""
        plan = self.plan
        inner = [n for n in plan.binds if plan.is_full(n) or plan.is_reduction(n)]
        last = max(plan.phase(n) + (not plan.is_reduction(n)) for n in inner)
        for phase in range(last):
            self._pass(phase)
        self._columns([n for n in plan.outputs if not plan.is_full(n)])

    def _pass(self, phase: int) -> None:
        plan = self.plan
        reductions = [n for n in plan.binds if plan.is_reduction(n) and plan.phase(n) == phase + 1]
        outputs = [n for n in plan.outputs if plan.is_full(n) and plan.phase(n) == phase]
        if not (reductions or outputs):
            return
        for name in reductions:
            self._array(name)
        names = self.block.names
        at = DimVar(names.fresh("c"), 0, 2**62)
        coords: dict[int, Dim] = {loop.axis: DimVar(names.fresh("r"), 0, 2**62) for loop in self.reduced}
        scope = self.block.inner({**coords, self.column.axis: at})
        self._recall(scope, at)
        values = {name: scope.value(plan.binds[name].target) for name in outputs}
        for name in reductions:
            self._join(scope, name, at)
        for name in outputs:
            self._store(scope, name, values[name])
        stmt: TirStmt = For(index_var(at.name), *self.bounds, tuple(scope.stmts), "vector")
        for loop in reversed(self.reduced):
            stmt = For(index_var(coords[loop.axis].name), 0, loop.extent, (stmt,))  # type: ignore[union-attr]  # DimVars
        self.block.stmts.append(stmt)
        for name in reductions:
            self._finish(name)

    def _array(self, name: str) -> None:
        """An accumulator per column, at the identity."""
        call = self.plan.call(name)
        assert isinstance(call.type, TensorType)
        dtype = accumulator_dtype(call.type.dtype)
        buffer = Var(TensorType((), dtype), self.block.names.fresh(f"{name}_columns"))
        self.arrays[name] = buffer
        at = DimVar(self.block.names.fresh("c"), 0, 2**62)
        start = Store(buffer, at, Constant(scalar(dtype), identity(call.attr("kind"), dtype)))
        self.block.stmts.append(Allocate(buffer, _BLOCK))
        self.block.stmts.append(For(index_var(at.name), 0, _BLOCK, (start,), "vector"))

    def _join(self, scope: Scope, name: str, at: DimVar) -> None:
        call = self.plan.call(name)
        buffer = self.arrays[name]
        assert isinstance(buffer.type, TensorType)
        dtype = buffer.type.dtype
        value = scope._operand(name, 0)
        assert isinstance(value.type, TensorType)
        if value.type.dtype is not dtype:
            value = Apply(scalar(dtype), "cast", (value,), (("dtype", dtype),))
        kind = call.attr("kind")
        if kind is ReduceKind.ABSMAX:
            value = Apply(scalar(dtype), "abs", (value,))
        where = at - self.bounds[0]
        joined = Apply(scalar(dtype), _JOIN[kind], (Load.of(buffer, where), value))
        scope.stmts.append(Store(buffer, where, joined))

    def _finish(self, name: str) -> None:
        """Replace the joined elements by the reduction's value."""
        buffer = self.arrays[name]
        at = DimVar(self.block.names.fresh("c"), 0, 2**62)
        value = final_value(self.plan, name, Load.of(buffer, at))
        if isinstance(value, Load):
            return
        assert isinstance(value.type, TensorType)
        finished = Var(
            TensorType((), compute_dtype(value.type.dtype)), self.block.names.fresh(f"{name}_final")
        )
        self.arrays[name] = finished
        self.block.stmts.append(Allocate(finished, _BLOCK))
        self.block.stmts.append(For(index_var(at.name), 0, _BLOCK, (Store(finished, at, value),), "vector"))

    def _recall(self, scope: Scope, at: Dim) -> None:
        for name, buffer in self.arrays.items():
            scope.known[name] = Load.of(buffer, at - self.bounds[0])

    def _columns(self, outputs: list[str]) -> None:
        if not outputs:
            return
        at = DimVar(self.block.names.fresh("c"), 0, 2**62)
        scope = self.block.inner({self.column.axis: at})
        self._recall(scope, at)
        for name in outputs:
            self._store(scope, name, scope.value(self.plan.binds[name].target))
        self.block.stmts.append(For(index_var(at.name), *self.bounds, tuple(scope.stmts), "vector"))

    def _store(self, scope: Scope, name: str, value: Expr) -> None:
        access = self.plan.store(name)
        scope.stmts.append(Store(buffer_var(access.view), scope.index(access.view, access.axes), value))


_JOIN = {
    ReduceKind.SUM: "add",
    ReduceKind.MEAN: "add",
    ReduceKind.MAX: "maximum",
    ReduceKind.MIN: "minimum",
    ReduceKind.ABSMAX: "maximum",
}


def identity(kind: ReduceKind, dtype: DType) -> float | int:
    """The value that changes nothing when joined."""
    if kind in (ReduceKind.SUM, ReduceKind.MEAN):
        return 0.0 if dtype.is_float else 0
    top: float | int = float("inf") if dtype.is_float else 2**63 - 1
    if kind is ReduceKind.MIN:
        return top
    return -top if dtype.is_float else -(2**63)


def _widest_read(plan: Plan):  # type: ignore[no-untyped-def]  # an Access
    return max(plan.accesses(), key=lambda access: sum(axis is not None for axis in access.axes))


def _dim(var: Var) -> DimVar:
    return DimVar(var.name, 0, 2**62)
