"""Nests whose packs lie along the innermost axis: rows that are joined, and elements that are on their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilefoundry.codegen.cpu.schedule.phases import (
    accumulator_dtype,
    coordinates,
    final_value,
    spilled_values,
)
from tilefoundry.codegen.cpu.schedule.plan import Loop, Plan
from tilefoundry.codegen.cpu.schedule.scope import Scope, as_index, buffer_var, index_var
from tilefoundry.codegen.cuda.schedule.ahead import loads_ahead
from tilefoundry.codegen.cuda.schedule.blocks import Block, dim_of
from tilefoundry.codegen.cuda.schedule.geometry import Geometry
from tilefoundry.codegen.cuda.schedule.instances import Placement
from tilefoundry.codegen.cuda.schedule.packs import PackScope, PackTable, register_place
from tilefoundry.codegen.cuda.schedule.row_shapes import RowShape, row_shape
from tilefoundry.codegen.cuda.statements import WIDTH, Combine, Packs, RegisterArray, WidePath
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Accumulate, Accumulator, Apply, For, If, Load, Store, TirStmt, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["schedule_rows"]

_MOST_KEPT = 64
"""Values of one thread that intermediate results may take between passes over a row."""


def schedule_rows(
    plan: Plan, names: Names, faults: dict[str, Var], placement: Placement
) -> tuple[TirStmt, ...]:
    """The kernel's mesh scope."""
    shape = row_shape(plan).over(placement)
    block = Block(names, shape.items, shape.geometry.rows, shape.geometry.threads)
    write = _reduced if shape.joined else _streaming
    return (placement.scope([write(shape, block, Scope(plan, names, {}, faults=faults))]),)


def _reduced(shape: RowShape, block: Block, row: Scope) -> Any:
    passes, stmts = _joined(shape, shape.geometry, block, row)
    if shape.geometry.elements is None:
        return passes.wide(stmts)
    # One element at a time a row does not fit into registers: it is read again for every pass.
    again = Scope(row.plan, row.names, {}, faults=row.faults)
    return passes.wide(stmts, _joined(shape, replace(shape.geometry, elements=None), block, again)[1])


def _joined(shape: RowShape, own: Geometry, block: Block, row: Scope) -> tuple[_Passes, list[TirStmt]]:
    row.stmts.extend(block.opening())
    coords, lets = coordinates(dim_of(block.item), shape.outer, row)
    row.coords = coords
    row.stmts.extend(lets)
    passes = _Passes(row.plan, row, block, own, shape.inner, (0, shape.extent))
    passes.write()
    return passes, row.stmts


def _streaming(shape: RowShape, block: Block, row: Scope) -> Any:
    row.stmts.extend(block.opening())
    loops = shape.outer if shape.tiles == 1 else (*shape.outer, Loop(-2, shape.tiles))
    coords, lets = coordinates(dim_of(block.item), loops, row)
    row.stmts.extend(lets)
    start: Dim = 0 if shape.tiles == 1 else product((coords.pop(-2), shape.geometry.tile))
    row.coords = coords
    passes = _Passes(row.plan, row, block, shape.geometry, shape.inner, (start, shape.extent))
    passes.write()
    return passes.wide(row.stmts)


@dataclass(slots=True)
class _Passes:
    """Writes one pass over the row per layer of reductions.

    Attributes:
        plan: the nest.
        row: the scope of the row; its statements receive the loops.
        block: the calling thread's place.
        geometry: how the row is shared.
        loops: the inner loops, outermost first; packs lie along the last.
        bounds: start and stop of the last loop.
    """

    plan: Plan
    row: Scope
    block: Block
    geometry: Geometry
    loops: tuple[Loop, ...]
    bounds: tuple[Dim, Dim]
    table: PackTable = field(init=False)
    spilled: dict[str, Var] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, slot = (
            DimVar(self.row.names.fresh("first"), 0, 2**62),
            DimVar(self.row.names.fresh("slot"), 0, 17),
        )
        holds = self._in_registers()
        self.table = PackTable(self.loops[-1].axis, first, slot, holds, staged=holds and self.geometry.staged)

    def _in_registers(self) -> bool:
        return self.geometry.elements is not None and len(self.loops) == 1 and bool(self.plan.nest.reduced)

    def write(self) -> None:
        """Append every pass, then the stores of values that are one per row."""
        self._reserve()
        for phase in range(self._phase_count()):
            self._pass(phase)
        self.row.stmts[:] = loads_ahead(self.row.stmts)
        self._row_stores()

    def wide(self, stmts: list[TirStmt], narrow: Sequence[TirStmt] = ()) -> Any:
        """The statements under the check that packs may be wide."""
        packs = tuple((buffer, offset) for (_, offset), buffer in self.table.checks.items())
        multiples = dict(self.table.multiples)
        multiples.setdefault(self.bounds[1])
        dynamic = [dim for dim in multiples if not (isinstance(dim, int) and dim % self.geometry.width == 0)]
        fixed = [dim for dim in dynamic if isinstance(dim, int)]
        width = 1 if fixed or not packs else self.geometry.width
        rest = tuple(d for d in dynamic if not isinstance(d, int))
        return WidePath(width, packs, rest, tuple(stmts), tuple(narrow))

    def _reserve(self) -> None:
        """Registers for values that later passes need and that cost much to compute again."""
        wanted = spilled_values(self.plan) if self._in_registers() and not self.table.staged else ()
        elements = self.geometry.elements or 0
        if len(wanted) * elements > _MOST_KEPT:
            return
        for name in wanted:
            dtype = compute_dtype(_dtype(self.plan, name))
            buffer = Var(TensorType((), dtype), self.row.names.fresh(f"{name}_kept"))
            self.spilled[name] = buffer
            self.row.stmts.append(RegisterArray(buffer, elements))  # type: ignore[arg-type]  # a CUDA statement

    def _phase_count(self) -> int:
        plan = self.plan
        tops = [plan.phase(name) for name in plan.binds if plan.is_reduction(name)]
        return max([*tops, *(plan.phase(n) + 1 for n in plan.outputs if self._is_inner(n))], default=0)

    def _is_inner(self, name: str) -> bool:
        return bool({loop.axis for loop in self.loops} & set(self.plan.maps[name]))

    def _pass(self, phase: int) -> None:
        plan = self.plan
        reductions = [n for n in plan.binds if plan.is_reduction(n) and plan.phase(n) == phase + 1]
        kept = [n for n in self.spilled if plan.phase(n) == phase]
        outputs = [n for n in plan.outputs if self._is_inner(n) and plan.phase(n) == phase]
        if not (reductions or kept or outputs):
            return
        totals = {name: self._accumulator(name) for name in reductions}
        self.table.begin()
        scope, coords = self._inner_scope(phase)
        values = {name: scope.value(plan.binds[name].target) for name in (*kept, *outputs)}
        operands = {name: self._operand(scope, name) for name in reductions}
        for name in kept:
            scope.stmts.append(
                Store(self.spilled[name], register_place(WIDTH, self.table.slot), values[name])
            )
        for name in reductions:
            scope.stmts.append(Accumulate(totals[name], plan.call(name).attr("kind"), operands[name]))
        for name in outputs:
            access = plan.store(name)
            scope.store(access.view, access.axes, values[name])
        rereads = 0 < phase == self._phase_count() - 1 and not self.table.keeps
        self.row.stmts.append(self._loop(coords, scope.stmts, rereads))
        for name in reductions:
            self._finish(name, totals[name])

    def _inner_scope(self, phase: int) -> tuple[PackScope, dict[int, DimVar]]:
        coords = {loop.axis: DimVar(self.row.names.fresh("j"), 0, 2**62) for loop in self.loops}
        scope = PackScope(
            self.plan, self.row.names, {**self.row.coords, **coords}, self.row, faults=self.row.faults
        )
        scope.table = self.table
        for name, buffer in self.spilled.items():
            if self.plan.phase(name) < phase:
                scope.known[name] = Load.of(buffer, register_place(WIDTH, self.table.slot))
        return scope, coords

    def _accumulator(self, name: str) -> Var:
        target = Var(
            scalar(accumulator_dtype(_dtype(self.plan, name))), self.row.names.fresh(f"{name}_total")
        )
        self.row.stmts.append(Accumulator(target, self.plan.call(name).attr("kind")))
        return target

    def _operand(self, scope: Scope, name: str) -> Expr:
        value = scope._operand(name, 0)
        dtype = accumulator_dtype(_dtype(self.plan, name))
        assert isinstance(value.type, TensorType)
        return (
            value
            if value.type.dtype is dtype
            else Apply(scalar(dtype), "cast", (value,), (("dtype", dtype),))
        )

    def _finish(self, name: str, total: Var) -> None:
        geometry, kind = self.geometry, self.plan.call(name).attr("kind")
        if geometry.threads > 1:
            joined = Combine(total, kind, (geometry.rows, geometry.threads), 1)
            self.row.stmts.append(joined)  # type: ignore[arg-type]  # a CUDA statement
        self.row.keep(name, name, final_value(self.plan, name, total))

    def _loop(self, coords: dict[int, DimVar], body: list[TirStmt], rereads: bool) -> TirStmt:
        last, geometry = self.loops[-1], self.geometry
        start, stop = self.bounds
        loaded = [pack.name for pack in self.table.loads]
        stmt: TirStmt = Packs(  # type: ignore[assignment]  # a CUDA statement
            first=index_var(self.table.first.name),
            slot=index_var(self.table.slot.name),
            element=index_var(coords[last.axis].name),
            lane=self.block.lane,
            threads=geometry.threads,
            elements=geometry.elements,
            start=start,
            stop=stop,
            exact=self._exact(),
            loads=tuple(self.table.loads),
            stores=tuple(self.table.stores),
            body=tuple(body),
            mask=self.block.live,
            again=self.table.keeps,
            staged=self.table.staged,
            rereads=rereads,
            held=tuple(var for var in self.table.kept.values() if var not in loaded),
        )
        for loop in reversed(self.loops[:-1]):
            stmt = For(index_var(coords[loop.axis].name), 0, loop.extent, (stmt,))
        return stmt

    def _exact(self) -> bool:
        """Whether a thread's packs end exactly at the row's end, or at the end of a tile that divides the row."""
        extent, tile = self.loops[-1].extent, self.geometry.tile
        return tile > 0 and isinstance(extent, int) and extent % tile == 0

    def _row_stores(self) -> None:
        names = [name for name in self.plan.outputs if not self._is_inner(name)]
        if not names:
            return
        boolean = scalar(DType.bool_)
        inner = self.row.inner({})
        for name in names:
            access = self.plan.store(name)
            value = self.row.value(self.plan.binds[name].target)
            inner.stmts.append(
                Store(buffer_var(access.view), self.row.index(access.view, access.axes), value)
            )
        body: tuple[TirStmt, ...] = tuple(inner.stmts)
        if self.geometry.threads > 1:
            first = Apply(boolean, "cmp_eq", (as_index(dim_of(self.block.lane)), as_index(0)))
            body = (If(first, body),)
        self.row.stmts.extend(body if self.block.live is None else (If(self.block.live, body),))


def _dtype(plan: Plan, name: str) -> DType:
    type_ = plan.call(name).type
    assert isinstance(type_, TensorType)
    return type_.dtype
