"""The loop nest of a fused group: which axis of the iteration domain each axis of each value runs over.

A nest has axes with extents. Every value inside it is computed for each point of the axes it runs over. At
most one set of axes is reduced; values after a reduction may run over the reduced axes again (softmax), or
over the kept ones alone. Any assignment of equal extents to different axes gives right results, since all
operands are read through the map of the value that reads them; the choice only decides what fuses.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, replace

from tilefoundry.ir.core.expr import Atom, Bind, Call, Constant, Var
from tilefoundry.ir.types import Dim, TensorType

__all__ = [
    "ARRANGE",
    "ELEMENTWISE",
    "MEMORY_OPS",
    "AxisMap",
    "Nest",
    "chained",
    "is_matmul",
    "is_nest_op",
    "operand_map",
]

AxisMap = tuple["int | None", ...]
"""Axis of the nest per axis of a value; None where the extent is 1."""

_ELEMENTWISE = """
add sub mul div floor_div mod minimum maximum cmp_eq cmp_ne cmp_lt cmp_le cmp_gt cmp_ge logical_and
logical_or neg abs logical_not rsqrt sqrt exp exp2 log log2 square ceil floor round sin cos erf clamp
relu sigmoid silu tanh gelu softplus cast where zeros workspace full_like arange
"""
ELEMENTWISE = frozenset(_ELEMENTWISE.split())
"""Ops that compute each element from the elements at the same place."""

MEMORY_OPS = frozenset({"index_select", "repeat_interleave", "matmul"})
"""Ops of a nest that read their operands from memory; those of a product may be a prologue instead."""

ARRANGE = frozenset({"transpose", "reshape"})
"""Ops of a nest that only rename axes."""

_READS = MEMORY_OPS - {"matmul"}


def is_nest_op(call: Call) -> bool:
    """True where ``call`` can be computed inside a loop nest."""
    name = call.op.name
    if name == "reshape":
        return keeps_axes(call)
    return name in ELEMENTWISE or name in _READS or name in ("reduce", "transpose", "matmul")


def keeps_axes(call: Call) -> bool:
    """True for a reshape that only adds or drops axes of extent 1."""
    source, result = call.args[0].type, call.type
    assert isinstance(source, TensorType) and isinstance(result, TensorType)
    return [d for d in source.shape if d != 1] == [d for d in result.shape if d != 1]


@dataclass(frozen=True, slots=True)
class Nest:
    """A group of binds and their iteration domain.

    Attributes:
        extents: extent of each axis.
        maps: name of a value in the group -> its axis map.
        reduced: the reduced axes; empty where nothing is reduced.
        binds: the group's binds in program order.
        matmul: name of the contraction at its root, or None.
        reads: name of a reduction whose operand comes from outside -> the axes that operand is read along.
        prologues: (position, nest) of each operand of the contraction that is computed while it is read. Such a nest
            has the operand's axes for extents, elementwise ops alone, and ends in the operand; its binds are none of
            ``binds``, and nothing else reads their values.
    """

    extents: tuple[Dim, ...] = ()
    maps: tuple[tuple[str, AxisMap], ...] = ()
    reduced: frozenset[int] = frozenset()
    binds: tuple[Bind, ...] = ()
    matmul: str | None = None
    reads: tuple[tuple[str, AxisMap], ...] = ()
    prologues: tuple[tuple[int, Nest], ...] = ()

    @property
    def table(self) -> dict[str, AxisMap]:
        """``maps`` as a dictionary."""
        return dict(self.maps)

    @property
    def kept(self) -> tuple[int, ...]:
        """The axes that are not reduced, in order."""
        return tuple(axis for axis in range(len(self.extents)) if axis not in self.reduced)

    @staticmethod
    def of(binds: Iterable[Bind], *, grow: bool = False) -> Nest | None:
        """The nest that computes all of ``binds``, given in program order, or None where they do not fit.

        A contraction comes first, whatever precedes it in the program; what its operands are computed from are its
        prologues.
        """
        given = list(binds)
        root = next((bind for bind in given if is_matmul(bind)), None)
        if root is None:
            return Nest()._grown(_sunk(given), grow)
        chains = _chains(root, given)
        if chains is None:
            return None
        apart = {bind.target.name for _, chain in chains for bind in chain.binds}
        rest = [bind for bind in given if bind is not root and bind.target.name not in apart]
        if apart & {arg.name for bind in rest for arg in bind.value.args if isinstance(arg, Var)}:
            return None
        nest = Nest().add(root)
        return None if nest is None else replace(nest, prologues=chains)._grown(_sunk(rest), grow)

    def _grown(self, binds: list[Bind], grow: bool) -> Nest | None:
        """The nest with all of ``binds``, in this order."""
        nest: Nest | None = self
        for bind in binds:
            if nest is None:
                return None
            nest = nest.add(bind, grow=grow)
        return nest

    def add(self, bind: Bind, *, grow: bool = False) -> Nest | None:
        """The nest with ``bind`` computed inside, or None where it does not fit.

        ``grow`` lets values of fewer axes be computed again along new ones.
        """
        call = bind.value
        assert isinstance(call, Call)
        name = call.op.name
        if name == "matmul":
            return self._seed_matmul(bind) if not self.binds else None
        if name in _READS:
            return self._add_read(bind)
        if name in ARRANGE:
            return self._add_arrangement(bind, grow)
        if name == "reduce":
            return self._add_reduction(bind)
        return self._add_elementwise(bind, grow)

    def _with(self, bind: Bind, axis_map: AxisMap, **changes: object) -> Nest | None:
        nest = replace(
            self,
            binds=(*self.binds, bind),
            maps=(*self.maps, (bind.target.name, axis_map)),
            **changes,  # type: ignore[arg-type]  # field values by name
        )
        covered = {axis for axis in axis_map if axis is not None}
        needed = {axis for axis in nest.kept if nest.extents[axis] != 1}
        return nest if covered >= needed else None

    def _seed_matmul(self, bind: Bind) -> Nest | None:
        shape = _shape(bind.target)
        axis_map = tuple(None if dim == 1 else axis for axis, dim in enumerate(shape))
        return self._with(bind, axis_map, extents=shape, matmul=bind.target.name)

    def _add_read(self, bind: Bind) -> Nest | None:
        call = bind.value
        if any(isinstance(arg, Var) and arg.name in self.table for arg in call.args):
            return None
        return self._add_result(bind, (None,) * len(_shape(bind.target)), False)

    def _add_arrangement(self, bind: Bind, grow: bool) -> Nest | None:
        call = bind.value
        assert isinstance(call, Call)
        source = call.args[0]
        if not isinstance(source, Var) or source.name not in self.table:
            return None
        inner = self.table[source.name]
        if call.op.name == "transpose":
            return self._with(bind, tuple(inner[axis] for axis in call.attr("perm")))
        axes = [axis for axis, dim in zip(inner, _shape(source), strict=True) if dim != 1]
        given = iter(axes)
        return self._with(bind, tuple(None if dim == 1 else next(given) for dim in _shape(bind.target)))

    def _add_reduction(self, bind: Bind) -> Nest | None:
        call = bind.value
        assert isinstance(call, Call)
        source = call.args[0]
        if isinstance(source, Constant):
            return None
        shape = _shape(source)
        nest: Nest = self
        inner = self.table.get(source.name)
        if inner is None:
            if self.binds:
                found = self._choose((None,) * len(shape), shape)
                if found is None:
                    return None
                inner = found
            else:
                inner = _numbered(shape)
                nest = replace(self, extents=tuple(dim for dim in shape if dim != 1))
            nest = replace(nest, reads=(*nest.reads, (bind.target.name, inner)))
        axes = call.attr("axes")
        reduced = frozenset(inner[axis] for axis in axes if inner[axis] is not None)  # type: ignore[misc]  # None is left out
        covers = {axis for axis in inner if axis is not None} == set(range(len(nest.extents)))
        if not reduced or not covers or (nest.reduced and nest.reduced != reduced):
            return nest._add_unit_reduction(bind, inner) if not reduced else None
        if nest.matmul is not None and reduced != {len(nest.extents) - 1}:
            return None
        result = _kept_map(inner, axes, keepdim=call.attr("keepdim"))
        return nest._with(bind, result, reduced=reduced)

    def _add_unit_reduction(self, bind: Bind, inner: AxisMap) -> Nest | None:
        """A reduction over axes of extent 1 is elementwise."""
        call = bind.value
        assert isinstance(call, Call)
        return self._with(bind, _kept_map(inner, call.attr("axes"), keepdim=call.attr("keepdim")))

    def _add_elementwise(self, bind: Bind, grow: bool) -> Nest | None:
        shape = _shape(bind.target)
        if self.binds and is_outside_cast(bind, self.table):
            chosen = self._choose((None,) * len(shape), shape)
            if chosen is not None:
                return replace(self, binds=(*self.binds, bind), maps=(*self.maps, (bind.target.name, chosen)))
        axis_map: list[int | None] = [None] * len(shape)
        for arg in bind.value.args:
            if (
                isinstance(arg, Var)
                and arg.name in self.table
                and not _overlay(axis_map, self.table[arg.name])
            ):
                return None
        return self._add_result(bind, tuple(axis_map), grow)

    def _add_result(self, bind: Bind, axis_map: AxisMap, grow: bool) -> Nest | None:
        shape = _shape(bind.target)
        chosen = self._choose(axis_map, shape)
        if chosen is not None:
            return self._with(bind, chosen)
        if self.reduced or self.matmul is not None or (self.binds and not grow):
            return None
        axes, extents = [], list(self.extents)
        taken = {axis for axis in axis_map if axis is not None}
        for have, dim in zip(axis_map, shape, strict=True):
            match = None if have is not None or dim == 1 else self._free_axis(dim, taken)
            if have is not None or dim == 1:
                axes.append(have)
            elif match is not None:
                taken.add(match)
                axes.append(match)
            else:
                axes.append(len(extents))
                extents.append(dim)
        return self._with(bind, tuple(axes), extents=tuple(extents))

    def _free_axis(self, dim: Dim, taken: set[int]) -> int | None:
        return next((a for a, e in enumerate(self.extents) if e == dim and a not in taken), None)

    def _choose(self, axis_map: AxisMap, shape: tuple[Dim, ...]) -> AxisMap | None:
        """``axis_map`` with an existing axis for every open axis of ``shape``, or None where one is lacking."""
        taken = {axis for axis in axis_map if axis is not None}
        out: list[int | None] = []
        for have, dim in zip(axis_map, shape, strict=True):
            axis = have
            if axis is None and dim != 1:
                axis = self._free_axis(dim, taken)
                if axis is None:
                    return None
                taken.add(axis)
            out.append(axis)
        return tuple(out)


def chained(operand: Var, binds: Iterable[Bind]) -> Nest | None:
    """The nest over ``operand``'s own axes that computes it from ``binds``, given in program order and all needed.

    None where one of them is not elementwise, or where two ops read a value of the chain at different places.
    """
    maps: dict[str, AxisMap] = {
        operand.name: tuple(None if dim == 1 else axis for axis, dim in enumerate(_shape(operand)))
    }
    chain = tuple(binds)
    inside = {bind.target.name for bind in chain}
    for bind in reversed(chain):
        call, own = bind.value, maps.get(bind.target.name)
        if own is None or not isinstance(call, Call) or not _is_chain_op(call):
            return None
        for arg in call.args:
            if isinstance(arg, Var) and arg.name in inside:
                below = _axes_below(call, own, arg)
                if maps.setdefault(arg.name, below) != below:
                    return None
    table = tuple((bind.target.name, maps[bind.target.name]) for bind in chain)
    return Nest(extents=_shape(operand), maps=table, binds=chain)


def _is_chain_op(call: Call) -> bool:
    name = call.op.name
    return name in ELEMENTWISE or name == "transpose" or (name == "reshape" and keeps_axes(call))


def _axes_below(call: Call, own: AxisMap, arg: Var) -> AxisMap:
    """The axes of an operand of ``call``, whose result runs over ``own``."""
    if call.op.name == "transpose":
        perm = call.attr("perm")
        return tuple(own[perm.index(axis)] for axis in range(len(perm)))
    if call.op.name == "reshape":
        axes = iter([axis for axis, dim in zip(own, _shape(call), strict=True) if dim != 1])
        return tuple(None if dim == 1 else next(axes) for dim in _shape(arg))
    return operand_map(own, arg)


def _chains(root: Bind, binds: list[Bind]) -> tuple[tuple[int, Nest], ...] | None:
    """What the operands of the product ``root`` are computed from among ``binds``; None where a product cannot read it
    so: ops that are not elementwise, or a value that both operands need."""
    made = {bind.target.name: bind for bind in binds}
    found: list[tuple[int, Nest]] = []
    for position, arg in enumerate(root.value.args):
        if not isinstance(arg, Var) or arg.name not in made:
            continue
        needed, pending = set(), [arg.name]
        while pending:
            name = pending.pop()
            if name in made and name not in needed:
                needed.add(name)
                pending += [below.name for below in made[name].value.args if isinstance(below, Var)]
        nest = chained(arg, [bind for bind in binds if bind.target.name in needed])
        if nest is None or any(needed & set(other.table) for _, other in found):
            return None
        found.append((position, nest))
    return tuple(found)


def operand_map(result: AxisMap, operand: Atom) -> AxisMap:
    """The axes that an elementwise operand outside the group is read along, from those of the result."""
    shape = _shape(operand)
    tail = result[len(result) - len(shape) :]
    return tuple(None if dim == 1 else axis for axis, dim in zip(tail, shape, strict=True))


def is_outside_cast(bind: Bind, inside: Container[str]) -> bool:
    """A cast of a value from outside: where all that read it are in the nest, it may be repeated along axes that it
    does not have."""
    call = bind.value
    if not isinstance(call, Call) or call.op.name != "cast":
        return False
    source = call.args[0]
    return isinstance(source, Var) and source.name not in inside


def _sunk(binds: list[Bind]) -> list[Bind]:
    """``binds`` with casts of outside values right before what first reads them."""
    names = {bind.target.name for bind in binds}
    waiting: dict[str, Bind] = {}
    out: list[Bind] = []
    for bind in binds:
        if is_outside_cast(bind, names):
            waiting[bind.target.name] = bind
            continue
        out.extend(
            waiting.pop(arg.name) for arg in bind.value.args if isinstance(arg, Var) and arg.name in waiting
        )
        out.append(bind)
    return [*out, *waiting.values()]


def is_matmul(bind: Bind) -> bool:
    """Whether ``bind`` computes a product."""
    return isinstance(bind.value, Call) and bind.value.op.name == "matmul"


def _kept_map(inner: AxisMap, axes: tuple[int, ...], *, keepdim: bool) -> AxisMap:
    return tuple(None if i in axes else axis for i, axis in enumerate(inner) if keepdim or i not in axes)


def _overlay(axis_map: list[int | None], operand: AxisMap) -> bool:
    """Write the operand's axes over the open tail of ``axis_map``; False where two axes meet."""
    start = len(axis_map) - len(operand)
    for i, axis in enumerate(operand):
        if axis is None:
            continue
        if axis_map[start + i] not in (None, axis):
            return False
        axis_map[start + i] = axis
    taken = [axis for axis in axis_map if axis is not None]
    return len(set(taken)) == len(taken)


def _numbered(shape: tuple[Dim, ...]) -> AxisMap:
    count = iter(range(len(shape)))
    return tuple(None if dim == 1 else next(count) for dim in shape)


def _shape(value: Atom | Call) -> tuple[Dim, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.shape
