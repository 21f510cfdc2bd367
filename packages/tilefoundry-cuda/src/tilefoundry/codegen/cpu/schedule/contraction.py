"""Nests around a matmul: blocks of rows come out of the contraction and go through the epilogue while in cache."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule.phases import RowPasses, coordinates, row_buffers, spilled_values
from tilefoundry.codegen.cpu.schedule.plan import Loop, Plan
from tilefoundry.codegen.cpu.schedule.prologues import computed_operand
from tilefoundry.codegen.cpu.schedule.scope import Scope, buffer_var, index_var
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    Apply,
    BufferView,
    ComputedOperand,
    Contraction,
    For,
    Load,
    TirStmt,
    compute_dtype,
)
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import product

__all__ = ["accumulator_type", "product_value", "schedule_contraction", "view_expr"]


def schedule_contraction(plan: Plan, names: Names, faults: dict[str, Var]) -> tuple[TirStmt, ...]:
    """One contraction whose body is the rest of the nest."""
    root = plan.nest.matmul
    assert root is not None
    call = plan.call(root)
    assert isinstance(call.type, TensorType)
    shape = call.type.shape
    lhs, rhs = _operands(plan, names, len(shape))
    dtype = accumulator_type(call.type.dtype)
    direct = _direct_output(plan, root, dtype)
    accumulator = Var(TensorType((), dtype), names.fresh(f"{root}_block"))
    block = [
        index_var(names.fresh(n))
        for n in ("pitch", "batch", "row_begin", "row_end", "column_begin", "column_end")
    ]
    plain = plan.outputs == (root,) and direct is not None
    body = () if plain else _epilogue(plan, names, faults, accumulator, block)
    destination = (
        None if direct is None else view_expr(plan.store(direct).view, shape, plan.store(direct).axes)
    )
    return (
        Contraction(lhs, rhs, destination, shape, accumulator, *block, bool(plan.nest.reduced), body),  # type: ignore[arg-type]  # six index variables
    )


def accumulator_type(dtype: DType) -> DType:
    """The type in which products of ``dtype`` are summed."""
    if not dtype.is_float:
        return DType.i64
    return dtype if dtype is DType.f64 else DType.f32


def product_value(total: Expr, dtype: DType) -> Expr:
    """A product's value from its sum: integers are summed in 64 bits and wrap to their type."""
    if dtype.is_float or dtype is accumulator_type(dtype):
        return total
    return Apply(scalar(dtype), "cast", (total,), (("dtype", dtype),))


def view_expr(
    view: View, shape: tuple[Dim, ...] | None = None, axes: tuple[int | None, ...] | None = None
) -> BufferView:
    """A view as a TIR expression; ``axes`` says which axis of ``shape`` each of the view's axes is."""
    if shape is None or axes is None:
        return BufferView(TensorType(view.shape, view.dtype), buffer_var(view), view.offset, view.strides)
    strides: list[Dim] = [0] * len(shape)
    for axis, stride in zip(axes, view.strides, strict=True):
        if axis is not None:
            strides[axis] = stride
    return BufferView(TensorType(shape, view.dtype), buffer_var(view), view.offset, tuple(strides))


def _operands(plan: Plan, names: Names, rank: int) -> tuple[BufferView | ComputedOperand, ...]:
    """Both operands: where they lie, or computed; beside a computed one a small float is widened as it is read."""
    assert plan.nest.matmul is not None
    prologues = dict(plan.nest.prologues)
    out: list[BufferView | ComputedOperand] = []
    for position, arg in enumerate(plan.call(plan.nest.matmul).args):
        assert isinstance(arg, Var) and isinstance(arg.type, TensorType)
        widened = bool(prologues) and compute_dtype(arg.type.dtype) is not arg.type.dtype
        computed = position in prologues or widened
        out.append(
            computed_operand(plan, names, position) if computed else _operand(plan.views[arg.name], rank)
        )
    return tuple(out)


def _operand(view: View, rank: int) -> BufferView:
    """An operand with as many axes as the result; missing and extent-1 batch axes repeat."""
    lead = rank - len(view.shape)
    shape = (*(1,) * lead, *view.shape)
    strides = (*(0,) * lead, *view.strides)
    batch = [
        0 if dim == 1 else stride for dim, stride in zip(shape[: rank - 2], strides[: rank - 2], strict=True)
    ]
    return BufferView(
        TensorType(shape, view.dtype), buffer_var(view), view.offset, (*batch, *strides[rank - 2 :])
    )


def _direct_output(plan: Plan, root: str, dtype: DType) -> str | None:
    """The output in whose memory the products may be accumulated: it is stored last and reads nothing after."""
    rank = len(plan.maps[root])
    fitting = [
        name
        for name in plan.outputs
        if plan.views[f"{name}:out"].dtype is dtype
        and len(plan.nest.extents) == rank
        and {axis for axis in plan.maps[name] if axis is not None}
        >= {axis for axis in range(rank) if plan.nest.extents[axis] != 1}
        and plan.store(name).stride(rank - 1) in (0, 1)
    ]
    last = max((plan.phase(name) for name in plan.outputs), default=0)
    return next((name for name in fitting if plan.phase(name) == last), None)


def _epilogue(
    plan: Plan, names: Names, faults: dict[str, Var], accumulator: Var, block: list[Var]
) -> tuple[TirStmt, ...]:
    pitch, batch, row_begin, row_end, column_begin, column_end = (DimVar(v.name, 0, 2**62) for v in block)
    rank = len(plan.nest.extents)
    batches = tuple(Loop(axis, plan.nest.extents[axis]) for axis in range(rank - 2))
    outside = Scope(plan, names, {}, faults=faults)
    coords, lets = coordinates(batch, batches, outside)
    item = index_var(names.fresh("i"))
    row_index = DimVar(item.name, 0, 2**62)
    outside.coords = coords
    row = _BlockRow(plan, names, {**coords, rank - 2: row_index}, faults=faults)
    row.block = (accumulator, product((row_index - row_begin, pitch)) - column_begin, rank - 1)
    if plan.nest.extents[rank - 1] == 1:
        row.recall(row, column_begin)
    inner = (Loop(rank - 1, plan.nest.extents[rank - 1]),)
    passes = RowPasses(plan, row, inner, (column_begin, column_end))
    passes.buffers, allocations = row_buffers(plan, spilled_values(plan), row, plan.nest.extents[rank - 1])
    passes.write()
    return (*lets, *allocations, For(item, row_begin, row_end, tuple(row.stmts)))


class _BlockRow(Scope):
    """A row scope that reads the contraction's value from its block."""

    __slots__ = ("block",)

    block: tuple[Var, Dim, int]

    def inner(self, coords: dict[int, Dim]) -> Scope:
        """As in Scope, with the contraction's value at hand."""
        scope = Scope.inner(self, coords)
        if scope.find(self.plan.nest.matmul) is None:
            self.recall(scope, scope.coords[self.block[2]])
        return scope

    def recall(self, scope: Scope, column: Dim) -> None:
        """Read the contraction's value at ``column`` into ``scope``; the row itself does so for its only column."""
        root = self.plan.nest.matmul
        assert root is not None
        buffer, start, _ = self.block
        type_ = self.plan.call(root).type
        assert isinstance(type_, TensorType)
        scope.keep(root, root, product_value(Load.of(buffer, start + column), type_.dtype))
