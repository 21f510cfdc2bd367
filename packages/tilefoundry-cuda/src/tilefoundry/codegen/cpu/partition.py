"""Split a flat body into groups that become kernels, and views that stay with the host."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.nest import MEMORY_OPS, Nest, is_matmul, is_nest_op, is_outside_cast
from tilefoundry.ir.core.expr import Bind, Block, Call, FunctionCall, Var
from tilefoundry.ir.tir import SCALAR_OPS

__all__ = ["VIEW_OPS", "Group", "any_nest", "is_view", "partition", "reads_inside"]

_CHEAP = 8
_LONGEST = 128
"""Ops of one kernel. A value's operands are scheduled where it is, at some stack frames an op; beyond, it is read."""

_GATHERS = MEMORY_OPS - {"matmul"}

VIEW_OPS = frozenset({"reshape", "transpose", "slice", "split", "tuple_get_item", "prefetch"})
"""Ops that the host answers with another view of the same buffer."""


def is_view(call: Call) -> bool:
    """Whether the host answers ``call`` with another view."""
    return call.op.name in VIEW_OPS


def any_nest(nest: Nest) -> bool:
    """Every nest whose product, if any, reads its operands from memory can be one kernel."""
    return not nest.prologues


@dataclass(slots=True)
class Group:
    """Binds that are computed together.

    Attributes:
        binds: in program order.
        nest: their iteration domain; None for one whole-tensor op, or for a view.
        is_view: the host answers it without work, or it is a call of a kernel already.
        grows: some of its values are computed again along axes that they do not have.
    """

    binds: list[Bind]
    nest: Nest | None = None
    is_view: bool = False
    grows: bool = False

    def uses(self) -> Iterator[str]:
        """Names of the values that the binds read, the group's own among them."""
        for bind in self.binds:
            for arg in bind.value.args:
                if isinstance(arg, Var):
                    yield arg.name


def partition(
    block: Block, *, views: Callable[[Call], bool] = is_view, accepts: Callable[[Nest], bool] = any_nest
) -> list[Group]:
    """Groups in an order in which each comes after those that it reads.

    ``views`` says which ops the host answers, ``accepts`` which nests can be one kernel.

    Greedy in program order: a bind joins the groups that make its operands where a nest holds them all and
    no cycle among groups arises.
    """
    return _Partition(block, views, accepts).run()


def _nest(bind: Bind, binds: list[Bind], groups: list[Group], grows: bool) -> Nest | None:
    """``Nest.of(binds)``, where ``bind`` joins ``groups``.

    In the ordinary case that is the one group's nest with ``bind`` at its end: building it again would make a chain of
    n ops cost n cubed. Products and casts of outside values are not computed where they stand, so they are built anew.
    """
    kept = groups[0].nest
    if len(groups) > 1 or kept is None or groups[0].grows != grows or is_matmul(bind):
        return Nest.of(binds, grow=grows)
    table = kept.table
    if any(is_outside_cast(b, table) for b in binds):
        return Nest.of(binds, grow=grows)
    return kept.add(bind, grow=grows)


@dataclass(slots=True)
class _Partition:
    block: Block
    views: Callable[[Call], bool]
    accepts: Callable[[Nest], bool]
    groups: list[Group] = field(default_factory=list)
    home: dict[str, Group] = field(default_factory=dict)
    order: dict[str, int] = field(default_factory=dict)
    uses: dict[str, int] = field(default_factory=dict)

    def run(self) -> list[Group]:
        self._count_uses()
        for i, stmt in enumerate(self.block.stmts):
            assert isinstance(stmt, Bind), "loops and scopes are gone before partitioning"
            self.order[stmt.target.name] = i
            self._place(stmt)
        return self._sorted()

    def _count_uses(self) -> None:
        for stmt in self.block.stmts:
            assert isinstance(stmt, Bind)
            for arg in stmt.value.args:
                if isinstance(arg, Var):
                    self.uses[arg.name] = self.uses.get(arg.name, 0) + 1
        for atom in self.block.results:
            if isinstance(atom, Var):
                self.uses[atom.name] = self.uses.get(atom.name, 0) + 1

    def _place(self, bind: Bind) -> None:
        call = bind.value
        if isinstance(call, FunctionCall):
            self._enter(Group([bind], None, True))
            return
        producers = self._producers(bind)
        viewed = self.views(call)
        if is_nest_op(call) and (producers or not viewed):
            if self._join(bind, producers):
                return
            if not viewed:
                self._open(bind)
                return
        self._enter(Group([bind], None, viewed))

    def _producers(self, bind: Bind) -> list[Group]:
        found: list[Group] = []
        for arg in bind.value.args:
            group = self.home.get(arg.name) if isinstance(arg, Var) else None
            if group is not None and group.nest is not None and group not in found:
                found.append(group)
        return found

    def _join(self, bind: Bind, producers: list[Group]) -> bool:
        choices = [producers] if len(producers) > 1 else []
        choices += [[group] for group in sorted(producers, key=_rank, reverse=True)]
        return any(self._try(bind, groups) for groups in choices)

    def _try(self, bind: Bind, groups: list[Group]) -> bool:
        host = max(groups, key=_rank)
        others = [group for group in groups if group is not host]
        if sum(len(group.binds) for group in groups) >= _LONGEST:
            return False
        if any(not self._worth_merging(other, host) for other in others):
            return False
        binds = sorted([bind, *(b for g in groups for b in g.binds)], key=lambda b: self.order[b.target.name])
        grows = any(group.grows for group in groups) or self._may_grow(binds)
        nest = _nest(bind, binds, groups, grows)
        if nest is None or not self.accepts(nest) or self._makes_cycle(groups, bind) or reads_inside(binds):
            return False
        if not (self._repeats_are_private(nest) and self._prologues_are_private(nest)):
            return False
        host.binds, host.nest, host.grows = binds, nest, grows
        self.groups = [group for group in self.groups if group not in others]
        for one in binds:
            self.home[one.target.name] = host
        return True

    def _worth_merging(self, other: Group, host: Group) -> bool:
        assert other.nest is not None and host.nest is not None
        return other.nest.matmul is None and not (other.nest.reduced and host.nest.matmul)

    def _may_grow(self, binds: list[Bind]) -> bool:
        """Computing cheap values again along a new axis is fine where nobody outside reads them."""
        names = [arg.name for b in binds for arg in b.value.args if isinstance(arg, Var)]
        inside = [b.target.name for b in binds[:-1]]
        cost = sum(SCALAR_OPS[b.value.op.name].cost for b in binds if _is_scalar_op(b))  # type: ignore[union-attr]  # a Call
        return cost <= _CHEAP and all(names.count(name) == self.uses.get(name, 0) for name in inside)

    def _repeats_are_private(self, nest: Nest) -> bool:
        """A cast that runs over some of the kept axes only is computed many times, so nobody else may want it."""
        needed, table = {axis for axis in nest.kept if nest.extents[axis] != 1}, nest.table
        casts = [bind.target.name for bind in nest.binds if is_outside_cast(bind, table)]
        names = (
            [arg.name for b in nest.binds for arg in b.value.args if isinstance(arg, Var)] if casts else []
        )
        return all(
            set(table[name]) >= needed or names.count(name) == self.uses.get(name, 0) for name in casts
        )

    def _prologues_are_private(self, nest: Nest) -> bool:
        """Nobody outside reads what an operand of the nest's product is computed from."""
        for _, chain in nest.prologues:
            names = [arg.name for b in chain.binds for arg in b.value.args if isinstance(arg, Var)]
            *inner, operand = (bind.target.name for bind in chain.binds)
            if self.uses.get(operand, 0) != 1 or any(names.count(n) != self.uses.get(n, 0) for n in inner):
                return False
        return True

    def _makes_cycle(self, groups: list[Group], bind: Bind) -> bool:
        """Whether some other group lies between the merged ones: it reads one and is read by another or by ``bind``."""
        merged = {id(group) for group in groups}
        needed = [arg.name for arg in bind.value.args if isinstance(arg, Var)]
        needed += [name for group in groups for name in group.uses()]
        pending = [g for name in needed if (g := self.home.get(name)) is not None and id(g) not in merged]
        seen: set[int] = set()
        while pending:
            group = pending.pop()
            if id(group) in seen:
                continue
            seen.add(id(group))
            for name in group.uses():
                below = self.home.get(name)
                if below is None or below is group:
                    continue
                if id(below) in merged:
                    return True
                pending.append(below)
        return False

    def _open(self, bind: Bind) -> None:
        self._enter(Group([bind], Nest().add(bind)))

    def _enter(self, group: Group) -> None:
        self.groups.append(group)
        for bind in group.binds:
            self.home[bind.target.name] = group

    def _sorted(self) -> list[Group]:
        """Depth first over what each group reads, without recursion as chains may be long; ties in program order."""
        out: list[Group] = []
        entered: set[int] = set()
        for first in sorted(self.groups, key=lambda g: self.order[g.binds[-1].target.name]):
            path = [(first, self._below(first))] if id(first) not in entered else []
            entered.add(id(first))
            while path:
                group, below = path[-1]
                one = next((g for g in below if id(g) not in entered), None)
                if one is None:
                    out.append(group)
                    path.pop()
                else:
                    entered.add(id(one))
                    path.append((one, self._below(one)))
        return out

    def _below(self, group: Group) -> Iterator[Group]:
        """The other groups that ``group`` reads."""
        found = (self.home.get(name) for name in group.uses())
        return (below for below in found if below is not None and below is not group)


def _is_scalar_op(bind: Bind) -> bool:
    return isinstance(bind.value, Call) and bind.value.op.name in SCALAR_OPS


def reads_inside(binds: list[Bind]) -> bool:
    """Whether an op that needs its operands in memory would read a value of the same group; a product's prologues are
    its nest's."""
    names = {bind.target.name for bind in binds}
    return any(
        isinstance(arg, Var) and arg.name in names
        for bind in binds
        if isinstance(bind.value, Call) and bind.value.op.name in _GATHERS
        for arg in bind.value.args
    )


def _rank(group: Group) -> tuple[int, int]:
    """Groups with a contraction first, then those of more axes."""
    assert group.nest is not None
    return (group.nest.matmul is not None, len(group.nest.extents))
