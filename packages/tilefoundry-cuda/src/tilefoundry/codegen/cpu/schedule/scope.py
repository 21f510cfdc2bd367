"""Values on demand: where one is needed, its operands are computed first, each once per scope."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.nest import ARRANGE, AxisMap
from tilefoundry.codegen.cpu.schedule.plan import Plan
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Atom, Call, Constant, Expr, Var
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import Apply, IndexValue, Let, Load, TirStmt, compute_dtype
from tilefoundry.ir.types import Dim, DimVar, DType, TensorType, scalar
from tilefoundry.ir.types.dim import floordiv, product

__all__ = ["Scope", "index_var"]


def index_var(name: str) -> Var:
    """An i64 scalar."""
    return Var(scalar(DType.i64), name)


@dataclass(slots=True)
class Scope:
    """Straight-line statements at one loop depth.

    Attributes:
        plan: the nest.
        names: gives out names.
        coords: coordinate of each axis that runs at this depth or outside; the innermost axis of a merged loop
            carries the whole loop's coordinate.
        parent: the scope around the loop, where values that do not need this loop are computed.
        known: values that are at hand.
        stmts: what was written so far.
        faults: name of the fault record of each gather.
    """

    plan: Plan
    names: Names
    coords: dict[int, Dim]
    parent: Scope | None = None
    known: dict[object, Expr] = field(default_factory=dict)
    stmts: list[TirStmt] = field(default_factory=list)
    faults: dict[str, Var] = field(default_factory=dict)

    def inner(self, coords: dict[int, Dim]) -> Scope:
        """A scope inside a loop over further axes."""
        return Scope(self.plan, self.names, {**self.coords, **coords}, self, faults=self.faults)

    def value(self, atom: Atom) -> Expr:
        """The scalar that ``atom`` has at this point of the domain; ``atom`` is computed in the nest."""
        if isinstance(atom, Constant):
            return atom
        found = self.find(atom.name)
        if found is not None:
            return found
        home = self._home(self.plan.maps[atom.name])
        return home.keep(atom.name, atom.name, home._computed(atom))

    def find(self, key: object) -> Expr | None:
        """What is at hand under ``key`` here or outside."""
        scope: Scope | None = self
        while scope is not None:
            if key in scope.known:
                return scope.known[key]
            scope = scope.parent
        return None

    def keep(self, key: object, wish: str, value: Expr) -> Expr:
        """Name ``value`` and remember it under ``key``; an atom needs no name."""
        if not isinstance(value, (Var, Constant)):
            target = Var(value.type, self.names.fresh(wish))
            self.stmts.append(Let(target, value))
            value = target
        self.known[key] = value
        return value

    def read(self, name: str, axes: AxisMap, extra: Dim = 0) -> Expr:
        """The element of the external value ``name`` at this point, ``extra`` elements further on."""
        view = self.plan.views[name]
        key = (name, axes, extra)
        found = self.find(key)
        if found is not None:
            return found
        home = self if extra != 0 else self._home(axes)
        buffer = buffer_var(view)
        return home.keep(key, f"{view.buffer}_at", Load.of(buffer, home.index(view, axes) + extra))

    def index(self, view: View, axes: AxisMap) -> Dim:
        """Element offset in the view's buffer at this point."""
        total = view.offset
        for axis, stride in zip(axes, view.strides, strict=True):
            if axis is not None and axis in self.coords:
                total = total + product((self.coords[axis], stride))
        return total

    def _home(self, axes: AxisMap) -> Scope:
        """The outermost scope at which a value over ``axes`` can be computed."""
        scope = self
        while scope.parent is not None and not (set(scope.coords) - set(scope.parent.coords)) & set(axes):
            scope = scope.parent
        return scope

    def _operand(self, name: str, position: int) -> Expr:
        atom = self.plan.call(name).args[position]
        if isinstance(atom, Constant) or atom.name in self.plan.binds:
            return self.value(atom)
        return self.read(atom.name, self.plan.read_map(name, position))

    def _computed(self, atom: Var) -> Expr:
        call = self.plan.call(atom.name)
        op = call.op.name
        if op in ARRANGE:
            return self._operand(atom.name, 0)
        if op in _SPECIAL:
            return _SPECIAL[op](self, atom.name, call)
        args = tuple(self._operand(atom.name, i) for i in range(len(call.args)))
        assert isinstance(call.type, TensorType)
        type_ = scalar(compute_dtype(call.type.dtype))
        return Apply(type_, *_scalar_op(call, args))


def buffer_var(view: View) -> Var:
    """The buffer of a view as a TIR variable."""
    return Var(TensorType((), view.dtype), view.buffer)


def _scalar_op(call: Call, args: tuple[Expr, ...]) -> tuple[str, tuple[Expr, ...], tuple]:
    op = call.op.name
    if op == "gelu":
        return ("gelu_tanh" if call.attr("approximate") == "tanh" else "gelu"), args, ()
    if op == "where":
        return "select", args, ()
    if op == "cast":
        source = call.args[0].type
        assert isinstance(source, TensorType)
        same = source.dtype is call.attr("dtype")
        return ("copy", args, ()) if same else ("cast", args, (("dtype", call.attr("dtype")),))
    if op == "clamp":
        return op, args, (("min_val", call.attr("min_val")), ("max_val", call.attr("max_val")))
    return op, args, ()


def _unit_reduction(scope: Scope, name: str, call: Call) -> Expr:
    value = scope._operand(name, 0)
    absolute = call.attr("kind").value == "absmax"
    return Apply(value.type, "abs", (value,)) if absolute else value


def _gather(scope: Scope, name: str, call: Call) -> Expr:
    """The row that the index names; an index outside is recorded and read as 0."""
    table, index = call.args
    assert isinstance(table, Var) and isinstance(index, (Var, Constant))
    dim = call.attr("dim")
    axes = scope.plan.read_map(name, 1)
    raw = scope.read(index.name, axes) if isinstance(index, Var) else index
    home = scope._home(axes)
    assert isinstance(table.type, TensorType)
    attrs = (("extent", table.type.shape[dim]), ("fault", scope.faults[name]))
    row = home.find((name, "row")) or home.keep(
        (name, "row"), f"{name}_row", Apply(scalar(DType.i64), "bounded", (raw,), attrs)
    )
    if isinstance(row, Constant):
        start: Dim = int(row.value)
    else:
        assert isinstance(row, Var)
        start = DimVar(row.name, 0, 2**62)
    stride = scope.plan.views[table.name].strides[dim]
    return scope.read(table.name, scope.plan.read_map(name, 0), product((start, stride)))


def _repeat(scope: Scope, name: str, call: Call) -> Expr:
    (source,) = call.args
    assert isinstance(source, Var)
    axis = call.attr("axis")
    over = scope.plan.maps[name][axis]
    at = 0 if over is None else floordiv(scope.coords[over], call.attr("repeats"))
    stride = scope.plan.views[source.name].strides[axis]
    return scope.read(source.name, scope.plan.read_map(name, 0), product((at, stride)))


def _zeros(scope: Scope, name: str, call: Call) -> Expr:
    assert isinstance(call.type, TensorType)
    dtype = compute_dtype(call.type.dtype)
    return Constant(scalar(dtype), 0.0 if dtype.is_float else False if dtype.is_bool else 0)


def as_index(value: Dim) -> Expr:
    """A dim as a scalar expression."""
    return IndexValue.of(value)


def _full_like(scope: Scope, name: str, call: Call) -> Expr:
    assert isinstance(call.type, TensorType)
    return Constant(scalar(compute_dtype(call.type.dtype)), call.attr("value"))


def _arange(scope: Scope, name: str, call: Call) -> Expr:
    (axis,) = scope.plan.maps[name]
    at = 0 if axis is None else scope.coords[axis]
    value = as_index(call.attr("start") + product((at, call.attr("step"))))
    dtype = call.attr("dtype")
    return value if dtype is DType.i64 else Apply(scalar(dtype), "cast", (value,), (("dtype", dtype),))


_SPECIAL = {
    "reduce": _unit_reduction,
    "index_select": _gather,
    "repeat_interleave": _repeat,
    "zeros": _zeros,
    "workspace": _zeros,
    "full_like": _full_like,
    "arange": _arange,
}
