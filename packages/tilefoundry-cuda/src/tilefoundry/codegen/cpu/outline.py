"""Turn groups into kernels: one child module per kernel, and an entry of calls and views."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.nest import ARRANGE
from tilefoundry.codegen.cpu.partition import Group
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, FunctionCall, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names
from tilefoundry.ir.types import TupleType

__all__ = ["Outliner"]

_NAMED_PARTS = 3


@dataclass(slots=True)
class Outliner:
    """Collects kernels over the functions of one module.

    Attributes:
        names: gives kernels and tuples their names.
        kernels: child modules, one per kernel, in launch order.
    """

    names: Names
    kernels: list[Module] = field(default_factory=list)

    def outline(self, groups: list[Group], results: tuple[Atom, ...]) -> Block:
        """The host body that launches a kernel per group."""
        wanted = _wanted_outside(groups, results)
        stmts: list[Stmt] = []
        for group in groups:
            stmts.extend(group.binds if group.is_view else self._launch(group, wanted))
        return Block(tuple(stmts), results)

    def _launch(self, group: Group, wanted: set[str]) -> list[Stmt]:
        own = {bind.target.name: bind for bind in group.binds}
        needed = [name for name in own if name in wanted]
        outputs, views = _exports(needed, own)
        binds = _closure(outputs, own)
        params = _externals(binds, own)
        kernel = self._kernel(binds, params, outputs)
        call = FunctionCall(kernel.result, kernel, (kernel.name, kernel.name), params)
        if len(outputs) == 1:
            return [Bind(outputs[0], call), *views]
        group_var = Var(kernel.result, self.names.fresh(f"{kernel.name}_results"))
        items = [
            Bind(out, HIR_OPS["tuple_get_item"].call((group_var,), {"index": i}))
            for i, out in enumerate(outputs)
        ]
        return [Bind(group_var, call), *items, *views]

    def _kernel(self, binds: list[Bind], params: tuple[Var, ...], outputs: list[Var]) -> Function:
        name = self.names.fresh(f"k{len(self.kernels)}_{_summary(binds)}")
        result = outputs[0].type if len(outputs) == 1 else TupleType(tuple(out.type for out in outputs))
        if len(outputs) == 1 and isinstance(result, TupleType):
            binds, outputs = _taken_apart(binds, outputs[0], self.names)
        plain = tuple(Var(param.type, param.name) for param in params)
        function = Function(name, plain, result, Block(tuple(binds), tuple(outputs)), topologies=())
        self.kernels.append(Module(name, (function,), name, topologies=()))
        return function


def _taken_apart(binds: list[Bind], group: Var, names: Names) -> tuple[list[Bind], list[Var]]:
    """The kernel of an op that gives a tuple returns its elements."""
    assert isinstance(group.type, TupleType)
    items = []
    for i in range(len(group.type.elements)):
        call = HIR_OPS["tuple_get_item"].call((group,), {"index": i})
        items.append(Bind(Var(call.type, names.fresh(f"{group.name}_{i}")), call))
    return [*binds, *items], [item.target for item in items]


def _wanted_outside(groups: list[Group], results: tuple[Atom, ...]) -> set[str]:
    """Values that are read outside of the group that computes them."""
    home = {bind.target.name: group for group in groups for bind in group.binds}
    wanted = {atom.name for atom in results if isinstance(atom, Var)}
    for group in groups:
        wanted.update(name for name in group.uses() if home.get(name) is not group)
    return wanted


def _exports(needed: list[str], own: dict[str, Bind]) -> tuple[list[Var], list[Bind]]:
    """What the kernel stores, and the views by which the host gets the rest: a renamed axis needs no store."""
    outputs: dict[str, Var] = {}
    views: dict[str, Bind] = {}

    def export(name: str) -> None:
        bind = own[name]
        call = bind.value
        source = call.args[0] if call.args else None
        if (
            isinstance(call, Call)
            and call.op.name in ARRANGE
            and isinstance(source, Var)
            and source.name in own
        ):
            export(source.name)
            views.setdefault(name, bind)
        else:
            outputs.setdefault(name, bind.target)

    for name in needed:
        export(name)
    return list(outputs.values()), list(views.values())


def _closure(outputs: list[Var], own: dict[str, Bind]) -> list[Bind]:
    """The binds that the outputs depend on, in program order."""
    needed: set[str] = set()
    pending = [out.name for out in outputs]
    while pending:
        name = pending.pop()
        if name in needed or name not in own:
            continue
        needed.add(name)
        pending.extend(arg.name for arg in own[name].value.args if isinstance(arg, Var))
    return [bind for name, bind in own.items() if name in needed]


def _externals(binds: list[Bind], own: dict[str, Bind]) -> tuple[Var, ...]:
    found: dict[str, Var] = {}
    for bind in binds:
        for arg in bind.value.args:
            if isinstance(arg, Var) and arg.name not in own:
                found.setdefault(arg.name, arg)
    return tuple(found.values())


def _summary(binds: list[Bind]) -> str:
    """A few op names that tell a reader what the kernel is about."""
    names = [bind.value.op.name for bind in binds if isinstance(bind.value, Call)]
    telling = [name for name in dict.fromkeys(names) if name not in ("reshape", "transpose", "cast")]
    order = sorted(telling, key=lambda name: (_RANK.get(name, 1), names.index(name)))
    return "_".join(order[:_NAMED_PARTS]) or "copy"


_RANK = {"matmul": 0, "index_select": 0, "add": 3, "mul": 2, "sub": 3, "div": 3}
