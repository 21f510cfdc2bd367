"""Turn groups into kernels and an entry of calls and views."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tilefoundry.codegen.cpu.nest import ARRANGE
from tilefoundry.codegen.cpu.partition import Group
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, FunctionCall, Stmt, Var
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names, is_solvable
from tilefoundry.ir.types import DimExpr, DimVar, TensorType, TupleType, dim_vars, type_dim_vars

__all__ = ["Outliner"]

_NAMED_PARTS = 3


@dataclass(slots=True)
class Outliner:
    """Makes kernels over the functions of one module.

    Attributes:
        names: gives kernels and tuples their names.
        params: of the entry; their shapes give every extent a value.
        count: kernels made so far.
    """

    names: Names
    params: tuple[Var, ...]
    count: int = 0

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
        params = (*params, *self._givers(binds, params))
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

    def _givers(self, binds: list[Bind], params: tuple[Var, ...]) -> tuple[Var, ...]:
        """Parameters whose shapes alone are wanted: no other one gives some extent of the kernel a value."""
        found: list[Var] = []
        for var in dict.fromkeys(var for bind in binds for var in _extents(bind)):
            if not any(_gives(param, var) for param in (*params, *found)):
                # No parameter gives a loop's index: the host passes it by its name.
                found += [param for param in self.params if _gives(param, var)][:1]
        return tuple(Var(param.type, param.name) for param in found)

    def _kernel(self, binds: list[Bind], params: tuple[Var, ...], outputs: list[Var]) -> Function:
        name = self.names.fresh(f"k{self.count}_{_summary(binds)}")
        self.count += 1
        result = outputs[0].type if len(outputs) == 1 else TupleType(tuple(out.type for out in outputs))
        if len(outputs) == 1 and isinstance(result, TupleType):
            binds, outputs = _taken_apart(binds, outputs[0], self.names)
        plain = tuple(Var(param.type, param.name) for param in params)
        return Function(name, plain, result, Block(tuple(binds), tuple(outputs)), topologies=())


def _extents(bind: Bind) -> Iterator[DimVar]:
    """Variables of the shapes and numbers that the op is about."""
    yield from type_dim_vars(bind.target.type)
    for _, value in bind.value.attrs if isinstance(bind.value, Call) else ():
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, (DimVar, DimExpr)):
                yield from dim_vars(item)


def _gives(param: Var, var: DimVar) -> bool:
    return isinstance(param.type, TensorType) and any(is_solvable(dim, var) for dim in param.type.shape)


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
