"""Nests around a matmul: one tile-level product, the rest of the nest as its epilogue."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule.contraction import accumulator_type
from tilefoundry.codegen.cpu.schedule.phases import coordinates
from tilefoundry.codegen.cpu.schedule.plan import Loop, Plan
from tilefoundry.codegen.cpu.schedule.scope import Scope, buffer_var, index_var
from tilefoundry.codegen.cpu.views import View
from tilefoundry.codegen.cuda.schedule.blocks import dim_of
from tilefoundry.codegen.cuda.schedule.geometry import BLOCK
from tilefoundry.codegen.cuda.statements import TileMatmul
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import BufferView, MeshScope, Store, TirStmt
from tilefoundry.ir.types import Dim, TensorType, ceildiv, scalar
from tilefoundry.ir.types.dim import product
from tilefoundry.ir.types.shard import Layout, Mesh, Topology

__all__ = ["schedule_contraction"]

_TILE = 64
"""Rows and columns of the smallest tile that a block takes; it decides how many blocks there are at most."""


def schedule_contraction(plan: Plan, names: Names, faults: dict[str, Var]) -> tuple[TirStmt, ...]:
    """The kernel's mesh scope."""
    root = plan.nest.matmul
    assert root is not None
    call = plan.call(root)
    assert isinstance(call.type, TensorType)
    shape = call.type.shape
    lhs, rhs = (_operand(plan.views[arg.name], len(shape)) for arg in call.args)  # type: ignore[union-attr]  # matmul takes tensors
    batch, row, column = (index_var(names.fresh(n)) for n in ("batch", "row", "column"))
    total = Var(scalar(accumulator_type(call.type.dtype)), names.fresh(f"{root}_sum"))
    body = _epilogue(plan, names, faults, (batch, row, column), total)
    *batches, rows, columns = shape
    tile = TileMatmul(lhs, rhs, tuple(batches), rows, columns, batch, row, column, total, body, BLOCK)
    grid = product([*batches, ceildiv(rows, _TILE), ceildiv(columns, _TILE)])
    at_least = max(grid, 1) if isinstance(grid, int) else grid
    mesh = Mesh(
        (Topology("cta", at_least), Topology("thread", BLOCK)), Layout((at_least, BLOCK)), ("tile", "t")
    )
    return (MeshScope("m", mesh, (tile,)),)  # type: ignore[arg-type]  # a CUDA statement


def _operand(view: View, rank: int) -> BufferView:
    """An operand with as many axes as the result; missing and extent-1 batch axes repeat."""
    lead = rank - len(view.shape)
    shape: tuple[Dim, ...] = (*(1,) * lead, *view.shape)
    strides: tuple[Dim, ...] = (*(0,) * lead, *view.strides)
    batch = [
        0 if dim == 1 else stride for dim, stride in zip(shape[: rank - 2], strides[: rank - 2], strict=True)
    ]
    type_ = TensorType(shape, view.dtype)
    return BufferView(type_, buffer_var(view), view.offset, (*batch, *strides[rank - 2 :]))


def _epilogue(
    plan: Plan, names: Names, faults: dict[str, Var], place: tuple[Var, Var, Var], total: Var
) -> tuple[TirStmt, ...]:
    batch, row, column = place
    rank = len(plan.nest.extents)
    scope = Scope(plan, names, {}, faults=faults)
    loops = tuple(Loop(axis, plan.nest.extents[axis]) for axis in range(rank - 2))
    coords, lets = coordinates(dim_of(batch), loops, scope)
    scope.stmts.extend(lets)
    scope.coords = {**coords, rank - 2: dim_of(row), rank - 1: dim_of(column)}
    assert plan.nest.matmul is not None
    scope.known[plan.nest.matmul] = total
    values = {name: scope.value(plan.binds[name].target) for name in plan.outputs}
    for name in plan.outputs:
        access = plan.store(name)
        scope.stmts.append(
            Store(buffer_var(access.view), scope.index(access.view, access.axes), values[name])
        )
    return tuple(scope.stmts)
