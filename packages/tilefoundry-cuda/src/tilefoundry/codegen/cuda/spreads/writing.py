"""A flat kernel as a scope in which its values have layouts."""

from __future__ import annotations

from tilefoundry.codegen.cuda.spreads.spread import Spread
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, MeshScope, Stmt, Var
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names
from tilefoundry.ir.types.shard import ShardLayout

__all__ = ["with_layouts"]


def with_layouts(function: Function, spread: Spread) -> Function | None:
    """The flat function with its parameters brought to registers, and its results stored, as ``spread`` says.

    None where the layouts cross the axes of some value, so that an op in between cannot say what it does to them.
    """
    assert function.body is not None
    bound = [stmt for stmt in function.body.stmts if isinstance(stmt, Bind)]
    taken = [*(p.name for p in function.params), *(v.name for v in function.dim_vars())]
    writer = _Writer(Names([*taken, *(bind.target.name for bind in bound)]))
    try:
        scope = writer.scope(function, bound, spread)
    except TypeRuleError:
        return None
    results = tuple(writer.values[atom.name] for atom in function.body.results if isinstance(atom, Var))
    body = Block((scope,), results)
    return Function(function.name, function.params, function.result, body, topologies=spread.levels)


class _Writer:
    """Collects the statements of the scope. A result keeps its name where it is stored."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.values: dict[str, Atom] = {}
        self.stmts: list[Stmt] = []

    def scope(self, function: Function, bound: list[Bind], spread: Spread) -> MeshScope:
        """The scope; ``values`` then has the stored results."""
        assert function.body is not None
        name = self.names.fresh("m")
        results = [atom for atom in function.body.results if isinstance(atom, Var)]
        for param, layout in zip(function.params, spread.inputs, strict=True):
            if layout is not None:
                self._move(param, self._own(param), layout, "rmem")
        own = {var.name: self._own(var) for var in results}
        for bind in bound:
            call = bind.value
            assert isinstance(call, Call)
            made = call.op.call(tuple(map(self._atom, call.args)), dict(call.attrs))
            self._bind(bind.target, own.get(bind.target.name, bind.target.name), made)
        for var, layout in zip(results, spread.results, strict=True):
            self._move(var, var.name, layout, "gmem")
        return MeshScope(name, spread.mesh, tuple(self.stmts))

    def _own(self, var: Var) -> str:
        return self.names.fresh(f"{var.name}_own")

    def _atom(self, atom: Atom) -> Atom:
        return self.values.get(atom.name, atom) if isinstance(atom, Var) else atom

    def _bind(self, original: Var, name: str, call: Call) -> None:
        var = Var(call.type, name)
        self.stmts.append(Bind(var, call))
        self.values[original.name] = var

    def _move(self, value: Var, name: str, layout: ShardLayout, storage: str) -> None:
        call = HIR_OPS["reshard"].call((self._atom(value),), {"layout": layout, "storage": storage})
        self._bind(value, name, call)
