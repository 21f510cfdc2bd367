"""A scope whose reads and writes along one axis go through packs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.nest import AxisMap
from tilefoundry.codegen.cpu.schedule.plan import Plan
from tilefoundry.codegen.cpu.schedule.scope import Scope, buffer_var
from tilefoundry.codegen.cpu.views import View
from tilefoundry.codegen.cuda.statements import PIECE, Pack
from tilefoundry.ir.core.expr import Atom, Call, Constant, Expr, Var
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import Apply, Let, Load, Store
from tilefoundry.ir.types import Dim, DimVar, TensorType, dim_vars
from tilefoundry.ir.types.dim import product

__all__ = ["PackScope", "PackTable", "register_place"]


@dataclass(slots=True)
class PackTable:
    """The packs of a kernel.

    Attributes:
        axis: the axis along which packs lie.
        first: index of a pack's first element.
        slot: position inside a pack.
        loads, stores: of the loop that is being written.
        kept: (view, axes) -> registers, for packs that stay at hand for later loops.
        staged: kept packs lie in shared memory, each thread's where no other reads.
        checks: everything whose alignment the wide path depends on.
    """

    axis: int
    first: DimVar
    slot: DimVar
    keeps: bool
    loads: list[Pack] = field(default_factory=list)
    stores: list[Pack] = field(default_factory=list)
    kept: dict[object, Var] = field(default_factory=dict)
    checks: dict[tuple[str, Dim], Var] = field(default_factory=dict)
    multiples: dict[Dim, None] = field(default_factory=dict)
    staged: bool = False
    count: int = 0

    def begin(self) -> None:
        """Start a new loop."""
        self.loads.clear()
        self.stores.clear()

    def fresh(self, view: View) -> Var:
        """Registers for one more pack."""
        self.count += 1
        return Var(TensorType((), view.dtype), f"pack.{self.count - 1}")

    def note(self, view: View, axes: AxisMap, extra: Dim = 0) -> None:
        """Remember what must be aligned for packs of ``view``."""
        self.checks.setdefault((view.buffer, view.offset), buffer_var(view))
        for axis, stride in zip(axes, view.strides, strict=True):
            if axis is not None and axis != self.axis and stride != 0:
                self.multiples.setdefault(stride)
        if extra != 0:
            for dim in view.strides:
                if dim not in (0, 1):
                    self.multiples.setdefault(dim)


class PackScope(Scope):
    """Reads of views that are contiguous along the packs' axis come from registers."""

    __slots__ = ("table",)

    table: PackTable

    def read(self, name: str, axes: AxisMap, extra: Dim = 0) -> Expr:
        """As in Scope, from a pack where there can be one."""
        view = self.plan.views[name]
        key = (name, axes, extra)
        found = self.find(key)
        if found is not None:
            return found
        if not self._packs(view, axes) or self._is_local(extra):
            return Scope.read(self, name, axes, extra)
        registers = self._loaded(key, view, axes, extra)
        return self.keep(key, f"{view.buffer}_at", Load.of(registers, self._place()))

    def store(self, view: View, axes: AxisMap, value: Expr) -> None:
        """Write one element, through a pack where there can be one."""
        if not self._packs(view, axes):
            self.stmts.append(Store(buffer_var(view), self.index(view, axes), value))
            return
        registers = self.table.fresh(view)
        value = self._before_rounding(value, view)
        self.table.note(view, axes)
        self.table.stores.append(
            Pack(registers, buffer_var(view), self._base(view, axes), self._once(view, axes))
        )
        self.stmts.append(Store(registers, self._place(), value))

    def _before_rounding(self, value: Expr, view: View) -> Expr:
        """What ``value`` was before a cast to the type that the store rounds to anyway."""
        for stmt in self.stmts:
            if isinstance(stmt, Let) and stmt.target == value and isinstance(stmt.value, Apply):
                same = stmt.value.op == "cast" and dict(stmt.value.attrs)["dtype"] is view.dtype
                return stmt.value.args[0] if same else value
        return value

    def _computed(self, atom: Var) -> Expr:
        """As in Scope; a softmax multiplies by one reciprocal per row, whose sum is known to be 1 or more."""
        call = self.plan.call(atom.name)
        if call.op.name == "div" and _is_softmax_sum(self.plan, call.args[1]):
            weight, total = (self._operand(atom.name, i) for i in range(2))
            home = self.parent
            # Over one element the sum is the element itself, which the row does not have at hand.
            inner = any(isinstance(stmt, Let) and stmt.target == total for stmt in self.stmts)
            if home is not None and not inner and isinstance(total, Var) and total.type == weight.type:
                key = (total.name, "reciprocal")
                one = Constant(total.type, 1.0)
                inverse = home.find(key) or home.keep(
                    key, "reciprocal", Apply(total.type, "div", (one, total))
                )
                return Apply(weight.type, "mul", (weight, inverse))
        return Scope._computed(self, atom)

    def _packs(self, view: View, axes: AxisMap) -> bool:
        stride = next((s for a, s in zip(axes, view.strides, strict=True) if a == self.table.axis), None)
        return stride == 1 and self.table.axis in self.coords

    def _is_local(self, extra: Dim) -> bool:
        """Whether an offset is computed inside the loop over elements."""
        own = {stmt.target.name for stmt in self.stmts if isinstance(stmt, Let)}
        return any(var.name in own for var in dim_vars(extra))

    def _loaded(self, key: object, view: View, axes: AxisMap, extra: Dim) -> Var:
        known = self.table.kept.get(key)
        if known is not None:
            return known
        registers = self.table.fresh(view)
        self.table.note(view, axes, extra)
        base, once = self._base(view, axes) + extra, self._once(view, axes)
        self.table.loads.append(Pack(registers, buffer_var(view), base, once))
        if self.table.keeps and once:
            self.table.kept[key] = registers
        return registers

    def _base(self, view: View, axes: AxisMap) -> Dim:
        total = view.offset
        for axis, stride in zip(axes, view.strides, strict=True):
            if axis is not None and axis in self.coords:
                at = self.table.first if axis == self.table.axis else self.coords[axis]
                total = total + product((at, stride))
        return total

    def _once(self, view: View, axes: AxisMap) -> bool:
        """Whether the elements differ with every axis of the nest, so that each is accessed by one thread."""
        moving = {a for a, s in zip(axes, view.strides, strict=True) if a is not None and s != 0}
        return all(axis in moving or extent == 1 for axis, extent in enumerate(self.plan.nest.extents))

    def _place(self) -> Dim:
        return self.table.slot


def _is_softmax_sum(plan: Plan, atom: Atom) -> bool:
    """Whether ``atom`` is the sum of ``exp(x - max(x))``, which is at least 1 unless it is NaN."""

    def made(by: Atom, op: str, kind: ReduceKind | None = None) -> Call | None:
        if not isinstance(by, Var) or by.name not in plan.binds:
            return None
        call = plan.call(by.name)
        return call if call.op.name == op and (kind is None or call.attr("kind") is kind) else None

    total = made(atom, "reduce", ReduceKind.SUM)
    if isinstance(atom, Var) and total is not None and not plan.is_reduction(atom.name):
        return False  # over axes of extent 1: an element's own value, not its row's
    weight = made(total.args[0], "exp") if total else None
    shifted = made(weight.args[0], "sub") if weight else None
    top = made(shifted.args[1], "reduce", ReduceKind.MAX) if shifted else None
    if total is None or shifted is None or top is None:
        return False
    return top.args[0] == shifted.args[0] and top.attr("axes") == total.attr("axes")


def register_place(width: DimVar, slot: DimVar) -> Dim:
    """Place of an element among those that a thread keeps of its row."""
    return product((PIECE, width)) + slot
