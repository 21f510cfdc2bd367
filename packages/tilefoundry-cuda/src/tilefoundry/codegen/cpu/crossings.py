"""Let as few bytes as possible pass from kernel to kernel: what widens a value is computed where it is read."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tilefoundry.codegen.cpu.nest import ELEMENTWISE, Nest
from tilefoundry.codegen.cpu.partition import Group, reads_inside
from tilefoundry.ir.core.expr import Atom, Bind, Call, Var
from tilefoundry.ir.types import TensorType

__all__ = ["lessen_crossings"]


def lessen_crossings(
    groups: Sequence[Group], results: Sequence[Atom], accepts: Callable[[Nest], bool]
) -> None:
    """Move ops from the group that makes their operands to the one group that reads them, where bytes are saved.

    A group takes in whatever can be computed beside its values. Where the reader has to be a kernel of its own, as
    rows of a product are, ``cast(h)`` and ``h * h`` would pass through memory instead of ``h``.

    Args:
        groups: in an order in which each comes after those that it reads; changed in place.
        results: what is read after the groups.
        accepts: which nests can be one kernel.
    """
    kept = {atom.name for atom in results if isinstance(atom, Var)}
    readers: dict[str, list[Group]] = {}
    for group in groups:
        for name in dict.fromkeys(group.uses()):
            readers.setdefault(name, []).append(group)
    for group in reversed(groups):
        for bind in reversed(group.binds):
            around = readers.get(bind.target.name, [])
            if bind.target.name in kept or len(around) != 1 or around[0] is group:
                continue
            if _saves(bind, group, readers, kept) and _moved(bind, group, around[0], accepts):
                for name in {arg.name for arg in bind.value.args if isinstance(arg, Var)}:
                    still = [group] if name in group.uses() else []
                    others = [g for g in readers[name] if g is not group and g is not around[0]]
                    readers[name] = [*others, *still, around[0]]


def _saves(bind: Bind, group: Group, readers: dict[str, list[Group]], kept: set[str]) -> bool:
    """Whether the operands that would pass instead are values of ``group``, as many elements, and fewer bytes."""
    call = bind.value
    if not (isinstance(call, Call) and call.op.name in ELEMENTWISE and isinstance(call.type, TensorType)):
        return False
    made = {b.target.name for b in group.binds}
    operands = {arg.name: arg for arg in call.args if isinstance(arg, Var)}
    if not operands or any(n not in made or _shape(o) != _shape(bind.target) for n, o in operands.items()):
        return False
    new = [o for n, o in operands.items() if n not in kept and all(g is group for g in readers[n])]
    return sum(_width(o) for o in new) < _width(bind.target)


def _moved(bind: Bind, group: Group, reader: Group, accepts: Callable[[Nest], bool]) -> bool:
    """Whether ``bind`` is computed by ``reader`` from now on, once per element as before."""
    if group.nest is None or reader.nest is None or len(group.binds) < 2:
        return False
    rest, joined = [b for b in group.binds if b is not bind], [bind, *reader.binds]
    left, right = Nest.of(rest, grow=group.grows), Nest.of(joined, grow=reader.grows)
    if left is None or right is None or reads_inside(joined) or not (accepts(left) and accepts(right)):
        return False
    if not _once(bind, right):
        return False
    group.binds, group.nest = rest, left
    reader.binds, reader.nest = joined, right
    return True


def _once(bind: Bind, nest: Nest) -> bool:
    """Whether ``bind`` runs over every axis of the nest that computes it; what repeats a prologue the target judges."""
    name = bind.target.name
    home = next((chain for _, chain in nest.prologues if name in chain.table), nest)
    return {axis for axis, extent in enumerate(home.extents) if extent != 1} <= set(home.table[name])


def _shape(var: Var) -> object:
    return var.type.shape if isinstance(var.type, TensorType) else None


def _width(var: Var) -> float:
    assert isinstance(var.type, TensorType)
    return var.type.dtype.itemsize
