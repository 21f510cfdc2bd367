"""What a nest schedule knows before it writes loops: accesses, loop axes, phases."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.nest import ARRANGE, AxisMap, Nest, operand_map
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Atom, Bind, Call, Var
from tilefoundry.ir.tir import SCALAR_OPS
from tilefoundry.ir.types import Dim, TensorType, dim_vars, evaluate_dim
from tilefoundry.ir.types.dim import product

__all__ = ["Access", "Loop", "Plan", "sample"]


@dataclass(frozen=True, slots=True)
class Loop:
    """One loop: adjacent axes that every access crosses as if they were one.

    ``axis`` is the innermost of them, whose stride is the loop's.
    """

    axis: int
    extent: Dim


@dataclass(frozen=True, slots=True)
class Access:
    """A view read or written along some axes of the nest."""

    view: View
    axes: AxisMap

    def stride(self, axis: int) -> Dim:
        """Elements between neighbours along ``axis``; 0 where the access does not run over it."""
        return next((s for a, s in zip(self.axes, self.view.strides, strict=True) if a == axis), 0)


@dataclass(slots=True)
class Plan:
    """A nest with its views.

    Attributes:
        nest: the iteration domain.
        views: name of an external value or an output -> where it lies.
        outputs: names of the values to store, in order.
    """

    nest: Nest
    views: Mapping[str, View]
    outputs: tuple[str, ...]
    binds: dict[str, Bind] = field(init=False)
    maps: dict[str, AxisMap] = field(init=False)
    _phases: dict[str, int] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.binds = {bind.target.name: bind for bind in self.nest.binds}
        self.maps = self.nest.table

    def call(self, name: str) -> Call:
        """The op that computes the value ``name``."""
        value = self.binds[name].value
        assert isinstance(value, Call)
        return value

    def store(self, output: str) -> Access:
        """Where the output lies."""
        return Access(self.views[f"{output}:out"], self.maps[output])

    def read_map(self, name: str, position: int) -> AxisMap:
        """The axes along which operand ``position`` of the value ``name``, an external one, is read."""
        call = self.call(name)
        result = self.maps[name]
        if call.op.name == "reduce":
            return dict(self.nest.reads)[name]
        if call.op.name == "index_select":
            dim, rank = call.attr("dim"), _rank(call.args[1])
            return (*result[:dim], None, *result[dim + rank :]) if position == 0 else result[dim : dim + rank]
        if call.op.name == "repeat_interleave":
            axis = call.attr("axis")
            return (*result[:axis], None, *result[axis + 1 :])
        return operand_map(result, call.args[position])

    def accesses(self) -> list[Access]:
        """Every read and store, a matmul's operands aside."""
        out = [self.store(name) for name in self.outputs]
        for name in self.binds:
            call = self.call(name)
            if call.op.name == "matmul":
                continue
            for position, arg in enumerate(call.args):
                if isinstance(arg, Var) and arg.name not in self.binds:
                    out.append(Access(self.views[arg.name], self.read_map(name, position)))
        return out

    def pinned(self) -> set[int]:
        """Axes whose coordinate itself is needed, so that they cannot merge with others."""
        out: set[int] = set()
        for name in self.binds:
            call = self.call(name)
            if call.op.name in ("repeat_interleave", "arange"):
                axis = self.maps[name][call.attr("axis") if call.op.name == "repeat_interleave" else 0]
                out |= set() if axis is None else {axis}
        return out

    def loops(self, axes: list[int]) -> tuple[Loop, ...]:
        """``axes``, outer first, as loops: neighbours merged where every access allows it."""
        accesses, pinned = self.accesses(), self.pinned()
        out: list[Loop] = []
        for axis in axes:
            extent = self.nest.extents[axis]
            if out and not {out[-1].axis, axis} & pinned and _all_merge(accesses, out[-1].axis, axis, extent):
                out[-1] = Loop(axis, product((out[-1].extent, extent)))
            else:
                out.append(Loop(axis, extent))
        return tuple(out)

    def memory_order(self, axes: tuple[int, ...], access: Access) -> list[int]:
        """``axes`` with the largest stride of ``access`` first; axes it does not run over come before all."""
        live = [axis for axis in axes if self.nest.extents[axis] != 1]
        return sorted(live, key=lambda axis: -(sample(access.stride(axis)) or 2**62))

    def phase(self, name: str) -> int:
        """How many reductions, one above the other, lie below the value; a reduction counts as above its operand."""
        if not self._phases:
            # In program order: a chain may be longer than Python's stack is deep.
            for one in self.binds:
                args = self.call(one).args
                below = [self._phases[a.name] for a in args if isinstance(a, Var) and a.name in self.binds]
                self._phases[one] = max(below, default=0) + self.is_reduction(one)
        return self._phases[name]

    def is_reduction(self, name: str) -> bool:
        """True for a reduction over axes of the nest; one over extent-1 axes alone is elementwise."""
        call = self.call(name)
        if call.op.name != "reduce":
            return False
        source = call.args[0]
        assert isinstance(source, Var)
        inner = self.maps.get(source.name) or dict(self.nest.reads)[name]
        return any(inner[axis] is not None for axis in call.attr("axes"))

    def is_full(self, name: str) -> bool:
        """True where the value runs over the reduced axes."""
        return bool(set(self.maps[name]) & self.nest.reduced)

    def cost(self, names: list[str] | None = None) -> int:
        """Scalar operations per point of the domain, roughly."""
        total = 0
        for name in self.binds if names is None else names:
            op = self.call(name).op.name
            total += 0 if op in ARRANGE else SCALAR_OPS[op].cost if op in SCALAR_OPS else 1
        return max(total, 1)

    @property
    def reduced_count(self) -> Dim:
        """Elements that one reduction joins."""
        return product(self.nest.extents[axis] for axis in sorted(self.nest.reduced))


def _all_merge(accesses: list[Access], outer: int, inner: int, extent: Dim) -> bool:
    return all(access.stride(outer) == product((access.stride(inner), extent)) for access in accesses)


def sample(dim: Dim) -> int:
    """A number that stands for ``dim`` where only an order of sizes is wanted."""
    if isinstance(dim, int):
        return dim
    return evaluate_dim(dim, {var.name: min(max(var.lo, 61), var.hi - 1) for var in dim_vars(dim)})


def _rank(atom: Atom) -> int:
    assert isinstance(atom.type, TensorType)
    return atom.type.rank
