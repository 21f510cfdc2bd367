"""Nests that join over outer axes: packs of columns, every column with registers of its own."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.schedule.columns import identity
from tilefoundry.codegen.cpu.schedule.phases import accumulator_dtype, coordinates, final_value
from tilefoundry.codegen.cpu.schedule.plan import Access, Loop, Plan
from tilefoundry.codegen.cpu.schedule.rows import leading_access
from tilefoundry.codegen.cpu.schedule.scope import Scope, as_index, index_var
from tilefoundry.codegen.cuda.schedule.blocks import Block, dim_of, index_let
from tilefoundry.codegen.cuda.schedule.geometry import BLOCK, MOST_THREADS, pack_width
from tilefoundry.codegen.cuda.schedule.instances import Instances, Placement
from tilefoundry.codegen.cuda.schedule.packs import PackScope, PackTable, register_place
from tilefoundry.codegen.cuda.schedule.row_shapes import packed_views
from tilefoundry.codegen.cuda.statements import WIDTH, Combine, Packs, RegisterArray, WidePath
from tilefoundry.ir.core.expr import Constant, Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Apply, For, If, Load, Store, TirStmt, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, bounds, ceildiv, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["column_instances", "schedule_columns"]

_WARP = 32
_FEW_BLOCKS = 33
"""A quarter of the multiprocessors: so few blocks may be large without keeping others from them."""

_LEAST_TURNS = 8
"""Rows that each group of a large block takes, at least: with fewer, bringing the groups together takes longer."""

_JOIN = {
    ReduceKind.SUM: "add",
    ReduceKind.MEAN: "add",
    ReduceKind.MAX: "maximum",
    ReduceKind.MIN: "minimum",
    ReduceKind.ABSMAX: "maximum",
}


def column_instances(plan: Plan) -> Instances:
    """Blocks of up to 32 packs of columns by groups that take the joined rows in turn.

    Few columns leave their threads to more groups; few blocks have more threads, since a group waits for what it has
    read before it reads on.
    """
    shape = _Shape.of(plan)
    lanes, blocks = shape.lanes, shape.instances(1, shape.lanes).blocks
    few = isinstance(blocks, int) and blocks <= _FEW_BLOCKS
    large = few and shape.turns >= _LEAST_TURNS * (MOST_THREADS // lanes)
    return shape.instances((MOST_THREADS if large else BLOCK) // lanes, lanes)


def schedule_columns(
    plan: Plan, names: Names, faults: dict[str, Var], placement: Placement
) -> tuple[TirStmt, ...]:
    """The kernel's mesh scope: a block is lanes of packs of columns by groups that take the joined rows in turn."""
    shape, wanted = _Shape.of(plan), column_instances(plan)
    groups, lanes = placement.rows_and_lanes(wanted)
    if groups & (groups - 1):
        placement.refuse("groups that join their sums are a power of two", wanted)
    fitting = shape.instances(groups, lanes)
    if fitting.blocks != placement.blocks:
        placement.refuse(f"blocks of {groups} x {lanes} threads are {fitting.blocks}", wanted)
    tile = lanes * shape.width
    block = Block(names, fitting.blocks, 1, groups * lanes)
    row = Scope(plan, names, {}, faults=faults)
    lane, group = (index_var(names.fresh(n)) for n in ("column_lane", "group"))
    thread = "program_id<TopologyScope::thread>()"
    row.stmts.append(index_let(block.item.name, "program_id<TopologyScope::cta>()"))
    row.stmts.append(index_let(lane.name, f"{thread} % {lanes}"))
    row.stmts.append(index_let(group.name, f"{thread} / {lanes}"))
    tiles = ceildiv(shape.column.extent, tile)
    coords, lets = coordinates(dim_of(block.item), (*shape.outer, Loop(-1, tiles)), row)
    start = product((coords.pop(-1), tile))
    row.coords = coords
    row.stmts.extend(lets)
    writer = _Columns(
        plan, row, shape.column, shape.reduced, lane, group, (groups, lanes), shape.width, start
    )
    writer.write()
    return (placement.scope((writer.wide(),)),)


@dataclass(frozen=True, slots=True)
class _Shape:
    """Loops over what a block is for, along its columns, and over what is joined; elements of a pack."""

    outer: tuple[Loop, ...]
    column: Loop
    reduced: tuple[Loop, ...]
    width: int

    @staticmethod
    def of(plan: Plan) -> _Shape:
        lead = leading_access(plan) if any(plan.is_full(n) for n in plan.outputs) else _widest_read(plan)
        *outer, column = plan.loops(plan.memory_order(plan.nest.kept, lead))
        reduced = plan.loops(plan.memory_order(tuple(plan.nest.reduced), lead))
        width = pack_width([a.view.dtype.itemsize for a in packed_views(plan, column.axis)], column.extent)
        return _Shape(tuple(outer), column, reduced, width)

    @property
    def lanes(self) -> int:
        """Threads that have packs of columns of their own: a power of two, a warp at most."""
        if not isinstance(self.column.extent, int):
            return _WARP
        return min(1 << max(-(-self.column.extent // self.width) - 1, 0).bit_length(), _WARP)

    @property
    def turns(self) -> int:
        """Joined rows, as many as there may be."""
        return bounds(product(loop.extent for loop in self.reduced))[1]

    def instances(self, groups: int, lanes: int) -> Instances:
        """Blocks of this form that cover the columns."""
        tiles = ceildiv(self.column.extent, lanes * self.width)
        blocks = product([*(loop.extent for loop in self.outer), tiles])
        return Instances(blocks, (groups, lanes), ("block", "group", "lane"))


@dataclass(slots=True)
class _Columns:
    plan: Plan
    row: Scope
    column: Loop
    reduced: tuple[Loop, ...]
    lane: Var
    group: Var
    threads: tuple[int, int]
    width: int
    start: Dim
    table: PackTable = field(init=False)
    arrays: dict[str, Var] = field(default_factory=dict)

    def __post_init__(self) -> None:
        first, slot = (
            DimVar(self.row.names.fresh("first"), 0, 2**62),
            DimVar(self.row.names.fresh("slot"), 0, 17),
        )
        self.table = PackTable(self.column.axis, first, slot, False)

    def wide(self) -> TirStmt:
        """Everything under the check that packs may be wide."""
        packs = tuple((buffer, offset) for (_, offset), buffer in self.table.checks.items())
        dims = [*self.table.multiples, self.column.extent]
        rest = [dim for dim in dims if not (isinstance(dim, int) and dim % self.width == 0)]
        width = 1 if not packs or any(isinstance(dim, int) for dim in rest) else self.width
        return WidePath(width, packs, tuple(d for d in rest if not isinstance(d, int)), tuple(self.row.stmts))  # type: ignore[return-value]  # a CUDA statement

    def write(self) -> None:
        """Append the passes, then the stores of values that are one per column."""
        plan = self.plan
        inner = [n for n in plan.binds if plan.is_full(n) or plan.is_reduction(n)]
        for phase in range(max(plan.phase(n) + (not plan.is_reduction(n)) for n in inner)):
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
        turn = DimVar(self.row.names.fresh("turn"), 0, 2**62)
        rows = self.row.inner({})
        coords, lets = coordinates(turn, self.reduced, rows)
        rows.stmts.extend(lets)
        rows.coords = {**self.row.coords, **coords}
        self.table.begin()
        scope, element = self._inner(rows)
        values = {name: scope.value(plan.binds[name].target) for name in outputs}
        for name in reductions:
            self._join(scope, name)
        for name in outputs:
            access = plan.store(name)
            scope.store(access.view, access.axes, values[name])
        rows.stmts.append(self._packs(element, scope.stmts))
        count = product(loop.extent for loop in self.reduced)
        self.row.stmts.append(
            For(index_var(turn.name), dim_of(self.group), count, tuple(rows.stmts), step=self.threads[0])
        )
        for name in reductions:
            self._finish(name)

    def _inner(self, around: Scope) -> tuple[PackScope, DimVar]:
        element = DimVar(self.row.names.fresh("c"), 0, 2**62)
        coords = {**around.coords, self.column.axis: element}
        scope = PackScope(self.plan, self.row.names, coords, around, faults=self.row.faults)
        scope.table = self.table
        for name, buffer in self.arrays.items():
            scope.known[name] = Load.of(buffer, self._place())
        return scope, element

    def _packs(self, element: DimVar, body: list[TirStmt], mask: Var | None = None) -> TirStmt:
        return Packs(  # type: ignore[return-value]  # a CUDA statement
            first=index_var(self.table.first.name),
            slot=index_var(self.table.slot.name),
            element=index_var(element.name),
            lane=self.lane,
            threads=self.threads[1],
            elements=self.width,
            start=self.start,
            stop=self.column.extent,
            exact=isinstance(self.column.extent, int)
            and self.column.extent % (self.threads[1] * self.width) == 0,
            loads=tuple(self.table.loads),
            stores=tuple(self.table.stores),
            body=tuple(body),
            mask=mask,
        )

    def _array(self, name: str) -> None:
        """A register per column of the thread, at the identity."""
        call = self.plan.call(name)
        assert isinstance(call.type, TensorType)
        dtype = accumulator_dtype(call.type.dtype)
        buffer = Var(TensorType((), dtype), self.row.names.fresh(f"{name}_columns"))
        self.arrays[name] = buffer
        start = Constant(scalar(dtype), identity(call.attr("kind"), dtype))
        self.row.stmts.append(RegisterArray(buffer, self.width, start))  # type: ignore[arg-type]  # a CUDA statement

    def _place(self) -> Dim:
        """Place of a column among the thread's registers."""
        return register_place(WIDTH, self.table.slot)

    def _join(self, scope: PackScope, name: str) -> None:
        call, buffer = self.plan.call(name), self.arrays[name]
        assert isinstance(buffer.type, TensorType)
        dtype = buffer.type.dtype
        value = scope._operand(name, 0)
        assert isinstance(value.type, TensorType)
        if value.type.dtype is not dtype:
            value = Apply(scalar(dtype), "cast", (value,), (("dtype", dtype),))
        kind = call.attr("kind")
        if kind is ReduceKind.ABSMAX:
            value = Apply(scalar(dtype), "abs", (value,))
        joined = Apply(scalar(dtype), _JOIN[kind], (Load.of(buffer, self._place()), value))
        scope.stmts.append(Store(buffer, self._place(), joined))

    def _finish(self, name: str) -> None:
        """Join over the groups, then replace the joined registers by the reduction's value."""
        buffer = self.arrays[name]
        kind = self.plan.call(name).attr("kind")
        self.row.stmts.append(Combine(buffer, kind, self.threads, 0, self.width))  # type: ignore[arg-type]  # a CUDA statement
        at = DimVar(self.row.names.fresh("c"), 0, 2**62)
        value = final_value(self.plan, name, Load.of(buffer, at))
        if isinstance(value, Load):
            return
        assert isinstance(value.type, TensorType)
        finished = Var(TensorType((), compute_dtype(value.type.dtype)), self.row.names.fresh(f"{name}_final"))
        self.arrays[name] = finished
        self.row.stmts.append(RegisterArray(finished, self.width))  # type: ignore[arg-type]  # a CUDA statement
        self.row.stmts.append(For(index_var(at.name), 0, self.width, (Store(finished, at, value),), "vector"))

    def _columns(self, outputs: list[str]) -> None:
        if not outputs:
            return
        self.table.begin()
        scope, element = self._inner(self.row)
        values: dict[str, Expr] = {name: scope.value(self.plan.binds[name].target) for name in outputs}
        for name in outputs:
            access = self.plan.store(name)
            scope.store(access.view, access.axes, values[name])
        first = Apply(scalar(DType.bool_), "cmp_eq", (as_index(dim_of(self.group)), as_index(0)))
        self.row.stmts.append(If(first, (self._packs(element, scope.stmts),)))


def _widest_read(plan: Plan) -> Access:
    return max(plan.accesses(), key=lambda access: sum(axis is not None for axis in access.axes))
