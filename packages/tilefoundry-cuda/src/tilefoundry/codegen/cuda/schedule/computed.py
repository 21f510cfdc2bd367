"""Products with operands that are computed while they are read; the rest of the nest is their epilogue."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule.contraction import accumulator_type, product_value
from tilefoundry.codegen.cpu.schedule.phases import coordinates
from tilefoundry.codegen.cpu.schedule.plan import Loop, Plan
from tilefoundry.codegen.cpu.schedule.scope import Scope, buffer_var, index_var
from tilefoundry.codegen.cuda.schedule.contraction import memory_operand
from tilefoundry.codegen.cuda.schedule.geometry import BLOCK
from tilefoundry.codegen.cuda.schedule.instances import Instances, Placement
from tilefoundry.codegen.cuda.schedule.prologues import are_halves, packed_operand, takes_few
from tilefoundry.codegen.cuda.statements import PackedOperand, TileProducts
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import BufferView, Store, TirStmt
from tilefoundry.ir.types import Dim, DimVar, TensorType, ceildiv, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["computed_instances", "schedule_computed"]

_TILE = 64
"""Rows and columns of the smallest tile that a block takes; it decides how many blocks there are at most."""

_FEW_BLOCKS = 2 * 132
"""So few blocks, of which a multiprocessor has one or two, have twice as many threads, to keep memory busy."""

_FRAGMENT = 16
"""Columns that a warp takes together where `mma.sync` multiplies them."""

_LANES_ROWS = 2
"""So few rows lanes multiply faster than `mma.sync`."""

_MMA_WARPS, _STREAMING_WARPS = 4224, 6336
"""So many warps keep memory busy, where that instruction multiplies and where lanes do."""


def computed_instances(plan: Plan) -> Instances:
    """As many blocks as there are tiles, or runs of columns where rows are few; blocks take them in turn."""
    _, right = _operands(plan, Names(plan.binds), {})
    blocks = _blocks(plan, right)
    alone = (
        takes_few(plan.nest) and not _follows_k(right) and isinstance(blocks, int) and blocks <= _FEW_BLOCKS
    )
    return Instances(blocks, (2 * BLOCK if alone else BLOCK,), ("tile", "t"))


def schedule_computed(
    plan: Plan, names: Names, faults: dict[str, Var], placement: Placement
) -> tuple[TirStmt, ...]:
    """The kernel's mesh scope: one product, whose operands read what they are computed from."""
    wanted = computed_instances(plan)
    if placement.thread_count != wanted.threads[0]:
        placement.refuse(f"this product is computed by blocks of {wanted.threads[0]} threads", wanted)
    lhs, rhs = _operands(plan, names, faults)
    *batches, rows, columns = plan.nest.extents
    root = plan.nest.matmul
    assert root is not None
    call = plan.call(root)
    left, kind = call.args[0].type, call.type
    assert isinstance(left, TensorType) and isinstance(kind, TensorType)
    total = Var(scalar(accumulator_type(kind.dtype)), names.fresh(f"{root}_sum"))
    batch, row, column = (DimVar(names.fresh(name), 0, 2**62) for name in ("batch", "row", "column"))
    body = _epilogue(plan, names, faults, (batch, row, column), total)
    tile = TileProducts(
        lhs=lhs,
        rhs=(rhs,),
        batches=tuple(batches),
        rows=rows,
        columns=columns,
        depth=left.shape[-1],
        batch=index_var(batch.name),
        row=index_var(row.name),
        column=index_var(column.name),
        totals=(total,),
        head=(),
        body=body,
        threads=placement.thread_count,
    )
    return (placement.scope((tile,)),)  # type: ignore[arg-type]  # a CUDA statement


def _operands(
    plan: Plan, names: Names, faults: dict[str, Var]
) -> tuple[BufferView | PackedOperand, BufferView | PackedOperand]:
    root, chains = plan.nest.matmul, dict(plan.nest.prologues)
    assert root is not None
    lhs, rhs = (
        packed_operand(plan, chains[position], names, faults)
        if position in chains
        else memory_operand(plan.views[arg.name], len(plan.nest.extents))  # type: ignore[union-attr]  # matmul takes tensors
        for position, arg in enumerate(plan.call(root).args)
    )
    return lhs, rhs


def _epilogue(
    plan: Plan, names: Names, faults: dict[str, Var], place: tuple[DimVar, DimVar, DimVar], total: Var
) -> tuple[TirStmt, ...]:
    """Statements for one element: what the program makes of its sum."""
    batch, row, column = place
    rank, root = len(plan.nest.extents), plan.nest.matmul
    assert root is not None
    body = Scope(plan, names, {}, faults=faults)
    loops = tuple(Loop(axis, plan.nest.extents[axis]) for axis in range(rank - 2))
    coords, lets = coordinates(batch, loops, body)
    body.stmts.extend(lets)
    body.coords = {**coords, rank - 2: row, rank - 1: column}
    kind = plan.call(root).type
    assert isinstance(kind, TensorType)
    body.keep(root, root, product_value(total, kind.dtype))
    values = {name: body.value(plan.binds[name].target) for name in plan.outputs}
    for name in plan.outputs:
        access = plan.store(name)
        body.stmts.append(Store(buffer_var(access.view), body.index(access.view, access.axes), values[name]))
    return tuple(body.stmts)


def _blocks(plan: Plan, right: BufferView | PackedOperand) -> Dim:
    """The runtime's rule, by which its tiers for few rows share columns out."""
    *batches, rows, columns = plan.nest.extents
    if not isinstance(rows, int) or not takes_few(plan.nest):
        return product([*batches, ceildiv(rows, _TILE), ceildiv(columns, _TILE)])
    warps = BLOCK // 32
    if not _follows_k(right):
        run = 64 if isinstance(columns, int) and columns >= 16384 else 32
        return product([*batches, ceildiv(columns, run)])
    if are_halves(plan.nest) and rows > _LANES_ROWS:
        runs = ceildiv(columns, _FRAGMENT)
        share = _sharing(runs, warps, _MMA_WARPS) if isinstance(runs, int) else 2
        return product([*batches, ceildiv(product((runs, share)), warps)])
    together = _columns_per_warp(rows, columns)
    runs = ceildiv(columns, together)
    share = _sharing(runs, warps, _STREAMING_WARPS) if isinstance(runs, int) else 1
    return ceildiv(product([*batches, runs, share]), warps)


def _follows_k(right: BufferView | PackedOperand) -> bool:
    """Whether neighbours along k lie side by side."""
    return right.axis == 0 if isinstance(right, PackedOperand) else right.strides[-2] == 1


def _sharing(runs: int, warps: int, most: int) -> int:
    """Warps that share a run of columns, a power of two."""
    count = 1
    while 2 * count <= warps and 2 * count * runs <= most:
        count *= 2
    return count


def _columns_per_warp(rows: int, columns: Dim) -> int:
    if not isinstance(columns, int) or rows > 4:
        return 2
    return 4 if columns >= 2048 else 2 if columns >= 1024 else 1
