"""Nests around a matmul: one tile-level product, the rest of the nest as its epilogue."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule.contraction import accumulator_type, product_value
from tilefoundry.codegen.cpu.schedule.phases import coordinates
from tilefoundry.codegen.cpu.schedule.plan import Loop, Plan
from tilefoundry.codegen.cpu.schedule.scope import Scope, buffer_var, index_var
from tilefoundry.codegen.cpu.views import View
from tilefoundry.codegen.cuda.schedule.geometry import BLOCK, pack_width
from tilefoundry.codegen.cuda.schedule.instances import Instances, Placement
from tilefoundry.codegen.cuda.schedule.packs import PackScope, PackTable
from tilefoundry.codegen.cuda.schedule.row_shapes import packed_views
from tilefoundry.codegen.cuda.statements import TileMatmul
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import BufferView, TirStmt
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, ceildiv, scalar
from tilefoundry.ir.types.dim import product

__all__ = [
    "contraction_instances",
    "memory_operand",
    "product_blocks",
    "product_threads",
    "schedule_contraction",
    "warps_per_column",
]

_TILE = 64
"""Rows and columns of the smallest tile that a block takes; it decides how many blocks there are at most."""

_STREAMED_ROWS = 8
"""So few rows read every weight once for all of them."""

_STREAMING_WARPS = 6336
"""So many warps keep memory busy."""

_FETCHING = 288
"""Eight warps that multiply and one that fetches."""


def contraction_instances(plan: Plan) -> Instances:
    """As many blocks as have a tile to compute, of as many threads as the product's tier takes."""
    lhs, rhs, shape = _product(plan)
    threads = product_threads(lhs, rhs)
    return Instances(product_blocks(lhs, rhs, shape, threads), (threads,), ("tile", "t"))


def schedule_contraction(
    plan: Plan, names: Names, faults: dict[str, Var], placement: Placement
) -> tuple[TirStmt, ...]:
    """The kernel's mesh scope; blocks take tiles in turn, so that their number is free."""
    lhs, rhs, shape = _product(plan)
    wanted = contraction_instances(plan)
    if placement.thread_count != wanted.threads[0]:
        placement.refuse(f"this product is computed by blocks of {wanted.threads[0]} threads", wanted)
    root = plan.nest.matmul
    assert root is not None
    type_ = plan.call(root).type
    assert isinstance(type_, TensorType)
    total = Var(scalar(accumulator_type(type_.dtype)), names.fresh(f"{root}_sum"))
    epilogue = _Epilogue(plan, names, faults)
    tile = epilogue.tile(lhs, rhs, shape, total, placement.thread_count)
    return (placement.scope((tile,)),)  # type: ignore[arg-type]  # a CUDA statement


def _product(plan: Plan) -> tuple[BufferView, BufferView, tuple[Dim, ...]]:
    """The factors, with as many axes as the result, and the result's extents."""
    root = plan.nest.matmul
    assert root is not None
    call = plan.call(root)
    assert isinstance(call.type, TensorType)
    shape = call.type.shape
    lhs, rhs = (memory_operand(plan.views[arg.name], len(shape)) for arg in call.args)  # type: ignore[union-attr]  # matmul takes tensors
    return lhs, rhs, shape


def _streams(lhs: BufferView, rhs: BufferView) -> bool:
    """Whether the weights are read once, a few columns per warp."""
    rows = lhs.type.shape[-2]  # type: ignore[attr-defined]  # a tensor
    return isinstance(rows, int) and rows <= _STREAMED_ROWS and rhs.strides[-2] == 1


def product_threads(lhs: BufferView, rhs: BufferView) -> int:
    """16-bit products have a warp that fetches; what the chip cannot fetch so is staged by all."""
    left, right = (view.type.dtype for view in (lhs, rhs))  # type: ignore[attr-defined]  # tensors
    fetches = left is right and left in (DType.f16, DType.bf16) and not _streams(lhs, rhs)
    return _FETCHING if fetches else BLOCK


def _per_warp(columns: Dim) -> int:
    """Columns that a warp takes together: few where there would not be enough warps to keep memory busy."""
    return 4 if isinstance(columns, int) and columns >= 8192 else 1 if isinstance(columns, int) else 2


def warps_per_column(columns: Dim, warps: int) -> int:
    """Warps that share a column, so that every multiprocessor has work; the runtime's rule."""
    count = 1
    while isinstance(columns, int) and 2 * count <= warps and columns * 2 * count <= _STREAMING_WARPS:
        count *= 2
    return count


def product_blocks(lhs: BufferView, rhs: BufferView, shape: tuple[Dim, ...], threads: int) -> Dim:
    """Blocks that a product of this shape keeps busy."""
    *batches, rows, columns = shape
    if _streams(lhs, rhs):
        runs = product([*batches, ceildiv(columns, _per_warp(columns))])
        return ceildiv(product((runs, warps_per_column(columns, threads // 32))), threads // 32)
    return product([*batches, ceildiv(rows, _TILE), ceildiv(columns, _TILE)])


def memory_operand(view: View, rank: int) -> BufferView:
    """An operand with as many axes as the result; missing and extent-1 batch axes repeat."""
    lead = rank - len(view.shape)
    shape: tuple[Dim, ...] = (*(1,) * lead, *view.shape)
    strides: tuple[Dim, ...] = (*(0,) * lead, *view.strides)
    batch = [
        0 if dim == 1 else stride for dim, stride in zip(shape[: rank - 2], strides[: rank - 2], strict=True)
    ]
    type_ = TensorType(shape, view.dtype)
    return BufferView(type_, buffer_var(view), view.offset, (*batch, *strides[rank - 2 :]))


class _Epilogue:
    """Writes the rest of the nest for neighbouring elements of a row of the product."""

    def __init__(self, plan: Plan, names: Names, faults: dict[str, Var]) -> None:
        self.plan, self.names, self.faults = plan, names, faults
        self.axis = len(plan.nest.extents) - 1
        self.batch, self.row, self.element, self.first, self.slot = (
            DimVar(names.fresh(name), 0, 2**62) for name in ("batch", "row", "column", "first", "slot")
        )
        self.table = PackTable(self.axis, self.first, self.slot, False)

    def tile(
        self, lhs: BufferView, rhs: BufferView, shape: tuple[Dim, ...], total: Var, threads: int
    ) -> TileMatmul:
        """The product with this epilogue; ``total`` is its sum there."""
        head, body = self._scopes(total)
        table, columns = self.table, shape[-1]
        packs = tuple((buffer, offset) for (_, offset), buffer in table.checks.items())
        width = pack_width([a.view.dtype.itemsize for a in packed_views(self.plan, self.axis)], columns)
        rest = [dim for dim in table.multiples if not (isinstance(dim, int) and dim % width == 0)]
        if not packs or any(isinstance(dim, int) for dim in rest):
            width, rest = 1, []
        return TileMatmul(
            lhs=lhs,
            rhs=rhs,
            batches=shape[:-2],
            rows=shape[-2],
            columns=columns,
            batch=index_var(self.batch.name),
            row=index_var(self.row.name),
            first=index_var(self.first.name),
            slot=index_var(self.slot.name),
            element=index_var(self.element.name),
            total=total,
            head=tuple(head.stmts),
            loads=tuple(table.loads),
            stores=tuple(table.stores),
            body=tuple(body.stmts),
            width=width,
            packs=packs,
            multiples=tuple(rest),
            threads=threads,
        )

    def _scopes(self, total: Var) -> tuple[Scope, PackScope]:
        plan = self.plan
        head = Scope(plan, self.names, {}, faults=self.faults)
        loops = tuple(Loop(axis, plan.nest.extents[axis]) for axis in range(self.axis - 1))
        coords, lets = coordinates(self.batch, loops, head)
        head.stmts.extend(lets)
        head.coords = {**coords, self.axis - 1: self.row}
        # Of one column no value runs over the axis, and what needs the sum must all the same wait for it.
        outside = None if plan.nest.extents[self.axis] == 1 else head
        coords = {**head.coords, self.axis: self.element}
        body = PackScope(plan, self.names, coords, outside, faults=self.faults)
        body.table = self.table
        assert plan.nest.matmul is not None
        type_ = plan.call(plan.nest.matmul).type
        assert isinstance(type_, TensorType)
        body.keep(plan.nest.matmul, plan.nest.matmul, product_value(total, type_.dtype))
        values = {name: body.value(plan.binds[name].target) for name in plan.outputs}
        for name in plan.outputs:
            access = plan.store(name)
            body.store(access.view, access.axes, values[name])
        return head, body
