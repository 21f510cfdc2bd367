"""Nests whose innermost loop is reduced, or that reduce nothing: one parallel loop over rows."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule.phases import (
    RowPasses,
    coordinates,
    lent_outputs,
    row_buffers,
    spilled_values,
)
from tilefoundry.codegen.cpu.schedule.plan import Access, Loop, Plan, sample
from tilefoundry.codegen.cpu.schedule.scope import Scope, as_index, index_var
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Apply, For, Let, Parallel, TirStmt
from tilefoundry.ir.types import Dim, DimVar, DType, ceildiv, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["schedule_rows"]

_PIECE = 4096
"""Elements of a long row that one item of an elementwise nest covers."""


def schedule_rows(plan: Plan, names: Names, faults: dict[str, Var]) -> tuple[TirStmt, ...]:
    """The loops of the nest: items are rows, or pieces of rows where nothing is reduced."""
    if plan.nest.reduced:
        return _reduced_rows(plan, names, faults)
    return _pieces(plan, names, faults)


def leading_access(plan: Plan) -> Access:
    """The access whose memory order the loops follow: the store of the most axes, else a read of them."""
    stores = [plan.store(name) for name in plan.outputs]
    return max([*stores, *plan.accesses()], key=lambda access: sum(axis is not None for axis in access.axes))


def _reduced_rows(plan: Plan, names: Names, faults: dict[str, Var]) -> tuple[TirStmt, ...]:
    lead = leading_access(plan)
    outer = plan.loops(plan.memory_order(plan.nest.kept, lead))
    inner = plan.loops(plan.memory_order(tuple(plan.nest.reduced), lead))
    inner = inner or (Loop(min(plan.nest.reduced), 1),)
    begin, end, item = (index_var(names.fresh(n)) for n in ("begin", "end", "item"))
    row = Scope(plan, names, {}, faults=faults)
    coords, lets = coordinates(_dim(item), outer, row)
    row.coords = coords
    row.stmts.extend(lets)
    length = product(loop.extent for loop in inner)
    passes = RowPasses(plan, row, inner, (0, inner[-1].extent))
    kept = spilled_values(plan)
    passes.lent = lent_outputs(plan, kept, inner[-1])
    own = tuple(name for name in kept if name not in passes.lent)
    passes.buffers, allocations = row_buffers(plan, own, row, length)
    passes.write()
    loop = For(item, _dim(begin), _dim(end), tuple(row.stmts))
    extent = product(loop_.extent for loop_ in outer)
    cost = product((length, plan.cost()))
    return (Parallel(begin, end, extent, cost, (*allocations, loop)),)


def _pieces(plan: Plan, names: Names, faults: dict[str, Var]) -> tuple[TirStmt, ...]:
    loops = plan.loops(plan.memory_order(plan.nest.kept, leading_access(plan)))
    begin, end = (index_var(names.fresh(n)) for n in ("begin", "end"))
    if len(loops) <= 1:
        return (_flat(plan, names, faults, loops, begin, end),)
    *outer, last = loops
    whole = isinstance(last.extent, int) and last.extent <= _PIECE
    item = index_var(names.fresh("item"))
    row = Scope(plan, names, {}, faults=faults)
    blocks: Dim = 1 if whole else ceildiv(last.extent, _PIECE)
    piece = () if whole else (Loop(-1, blocks),)
    coords, lets = coordinates(_dim(item), (*outer, *piece), row)
    row.stmts.extend(lets)
    bounds: tuple[Dim, Dim] = (0, last.extent)
    if not whole:
        bounds = _piece_bounds(row, coords.pop(-1), last.extent)
    row.coords = coords
    RowPasses(plan, row, (last,), bounds).write()
    extent = product([*(loop.extent for loop in outer), blocks])
    cost = product((last.extent if whole else _PIECE, plan.cost()))
    return (Parallel(begin, end, extent, cost, (For(item, _dim(begin), _dim(end), tuple(row.stmts)),)),)


def _flat(
    plan: Plan, names: Names, faults: dict[str, Var], loops: tuple[Loop, ...], begin: Var, end: Var
) -> TirStmt:
    loop = loops[0] if loops else Loop(-1, 1)
    row = Scope(plan, names, {}, faults=faults)
    RowPasses(plan, row, (loop,), (_dim(begin), _dim(end))).write()
    return Parallel(begin, end, loop.extent, plan.cost(), tuple(row.stmts))


def _piece_bounds(row: Scope, block: Dim, extent: Dim) -> tuple[Dim, Dim]:
    start = product((block, _PIECE))
    stop = index_var(row.names.fresh("stop"))
    smaller = Apply(scalar(DType.i64), "minimum", (as_index(start + _PIECE), as_index(extent)))
    row.stmts.append(Let(stop, smaller))
    return start, _dim(stop)


def _dim(var: Var) -> DimVar:
    return DimVar(var.name, 0, 2**62)


def row_is_contiguous(plan: Plan) -> bool:
    """Whether the reduced axes are the innermost in memory, so that a row is read in order."""
    lead = max(plan.accesses(), key=lambda access: sum(axis is not None for axis in access.axes))
    live = [axis for axis in range(len(plan.nest.extents)) if plan.nest.extents[axis] != 1]
    steps = {axis: sample(lead.stride(axis)) for axis in live if lead.stride(axis) != 0}
    if not steps:
        return True
    return min(steps, key=lambda axis: steps[axis]) in plan.nest.reduced
