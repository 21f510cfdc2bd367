"""Operands of a product that are computed while they are read: when that pays, and the loops over a rectangle."""

from __future__ import annotations

from tilefoundry.codegen.cpu.nest import AxisMap, Nest
from tilefoundry.codegen.cpu.schedule.phases import coordinates
from tilefoundry.codegen.cpu.schedule.plan import Access, Loop, Plan
from tilefoundry.codegen.cpu.schedule.scope import Scope, index_var
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import ComputedOperand, For, Store, TirStmt, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, TensorType
from tilefoundry.ir.types.dim import product

__all__ = ["accepts", "computed_operand", "prologue_refusal"]


def accepts(nest: Nest) -> bool:
    """Whether a nest is worth being one kernel."""
    return prologue_refusal(nest) is None


def prologue_refusal(nest: Nest) -> str | None:
    """Why an operand of the nest's product is better computed by a kernel of its own; None where it is not.

    Computed while it is read, an operand is never whole in memory: its bytes are neither written nor read back, and no
    page is touched first. Rows are computed once, and columns once for hundreds of rows, so only batches repeat it: one
    operand for all of them is recognised, one for some of them is computed again for the others.
    """
    for position, chain in nest.prologues:
        times = _repeats(nest.extents, chain.extents)
        if times != 1:
            side = ("left", "right")[position]
            return f"its {side} operand would be computed {times} times, once for every batch that shares it"
    return None


def _repeats(result: tuple[Dim, ...], operand: tuple[Dim, ...]) -> Dim:
    """How often an operand of these extents is computed for a product of those: once where it has no batches."""
    lead = len(result) - len(operand)
    own, around = operand[:-2], result[lead:-2]
    if all(dim == 1 for dim in own):
        return 1
    missing = [have for have, dim in zip(around, own, strict=True) if dim == 1]
    return product([*result[:lead], *missing])


def computed_operand(plan: Plan, names: Names, position: int) -> ComputedOperand:
    """The operand ``position`` of the plan's product, computed: by its prologue, or widened as it is read."""
    root = plan.nest.matmul
    assert root is not None
    operand = plan.call(root).args[position]
    assert isinstance(operand, Var) and isinstance(operand.type, TensorType)
    shape = operand.type.shape
    chain = dict(plan.nest.prologues).get(position) or Nest(extents=shape)
    return _Rectangles(plan, Plan(chain, plan.views, ()), names, operand).operand()


class _Rectangles:
    """Writes the loops that compute a rectangle of one operand."""

    def __init__(self, plan: Plan, chain: Plan, names: Names, operand: Var) -> None:
        assert isinstance(operand.type, TensorType)
        self.product, self.chain, self.names, self.value = plan, chain, names, operand
        self.type = operand.type
        self.rows, self.columns = len(self.type.shape) - 2, len(self.type.shape) - 1
        self.dtype = compute_dtype(self.type.dtype)
        self.told = [
            index_var(names.fresh(n)) for n in ("pitch", "batch", "begin", "end", "inner_begin", "inner_end")
        ]

    def operand(self) -> ComputedOperand:
        """What computes a rectangle of the operand."""
        target = Var(TensorType((), self.dtype), self.names.fresh(f"{self.value.name}_panel"))
        pitch, batch, begin, end, inner_begin, inner_end = self.told
        along_rows = self._along_rows()
        shared = all(dim == 1 for dim in self.type.shape[:-2])
        return ComputedOperand(
            TensorType(self.type.shape, self.dtype),
            target,
            pitch,
            batch,
            begin,
            end,
            inner_begin,
            inner_end,
            along_rows,
            shared,
            self.chain.cost(),
            self._body(target, along_rows, shared),
        )

    def _own_map(self) -> AxisMap:
        return tuple(None if dim == 1 else axis for axis, dim in enumerate(self.type.shape))

    def _accesses(self) -> list[Access]:
        if self.chain.binds:
            return self.chain.accesses()
        return [Access(self.chain.views[self.value.name], self._own_map())]

    def _along_rows(self) -> bool:
        """Whether more of what is read lies along the rows' axis than along the columns'."""
        sizes = {self.rows: 0.0, self.columns: 0.0}
        needed = {axis for axis in sizes if self.type.shape[axis] != 1}
        for access in self._accesses():
            for axis in sizes:
                if needed <= set(access.axes) and access.stride(axis) == 1:
                    sizes[axis] += access.view.dtype.itemsize
        return sizes[self.rows] > sizes[self.columns]

    def _body(self, target: Var, along_rows: bool, shared: bool) -> tuple[TirStmt, ...]:
        pitch, batch, begin, end, inner_begin, inner_end = (DimVar(v.name, 0, 2**62) for v in self.told)
        outer, inner = (self.columns, self.rows) if along_rows else (self.rows, self.columns)
        whole = Scope(self.chain, self.names, {})
        if not shared:
            coords, lets = coordinates(batch, self._batches(), whole)
            whole.coords = coords
            whole.stmts.extend(lets)
        at, inner_at = (DimVar(self.names.fresh(n), 0, 2**62) for n in ("i", "j"))
        line = whole.inner({outer: at})
        point = line.inner({inner: inner_at})
        value = self._value(point)
        place: Dim = product((at - begin, pitch)) + inner_at - inner_begin
        point.stmts.append(Store(target, place, value))
        line.stmts.append(For(index_var(inner_at.name), inner_begin, inner_end, tuple(point.stmts), "vector"))
        return (*whole.stmts, For(index_var(at.name), begin, end, tuple(line.stmts)))

    def _value(self, point: Scope) -> Expr:
        if self.chain.binds:
            return point.value(self.value)
        return point.read(self.value.name, self._own_map())

    def _batches(self) -> tuple[Loop, ...]:
        """The product's batches; those that the operand does not have have axes that nothing reads."""
        extents = self.product.nest.extents
        lead = len(extents) - len(self.type.shape)
        return tuple(Loop(axis - lead, extents[axis]) for axis in range(len(extents) - 2))
