"""The statements of a scope, as they are written one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.ir.core.expr import Atom, Bind, Call, Stmt, Var
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.passes import Names

__all__ = ["Writer"]


class Writer:
    """Collects statements; ``values`` has what stands for each value of the flat kernel so far."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.values: dict[str, Atom] = {}
        self.stmts: list[Stmt] = []

    def own(self, var: Var) -> str:
        """A name for what threads hold of a value."""
        return self.names.fresh(f"{var.name}_own")

    def atom(self, atom: Atom) -> Atom:
        """What stands for ``atom``."""
        return self.values.get(atom.name, atom) if isinstance(atom, Var) else atom

    def compute(self, bound: Sequence[Bind], results: Sequence[Var]) -> None:
        """The ops, typed anew; results are called as what threads hold of them."""
        own = {var.name: self.own(var) for var in results}
        for bind in bound:
            call = bind.value
            assert isinstance(call, Call)
            made = call.op.call(tuple(map(self.atom, call.args)), dict(call.attrs))
            self.bind(bind.target, own.get(bind.target.name, bind.target.name), made)

    def move(self, value: Var, name: str, layout: Any, storage: str) -> None:
        """A reshard of what stands for ``value``, which then stands for it."""
        call = HIR_OPS["reshard"].call((self.atom(value),), {"layout": layout, "storage": storage})
        self.bind(value, name, call)

    def bind(self, value: Var, name: str, call: Call) -> Var:
        """``name = call``, which then stands for ``value``."""
        var = Var(call.type, name)
        self.stmts.append(Bind(var, call))
        self.values[value.name] = var
        return var
