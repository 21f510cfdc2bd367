"""A flat kernel as a scope in which its values have layouts."""

from __future__ import annotations

from tilefoundry.codegen.cuda.spreads.spread import Spread
from tilefoundry.codegen.cuda.spreads.windows import WindowWriter
from tilefoundry.codegen.cuda.spreads.writer import Writer
from tilefoundry.ir.core.expr import Bind, Block, MeshScope, Var
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names

__all__ = ["with_layouts"]


def with_layouts(function: Function, spread: Spread) -> Function | None:
    """The flat function with its parameters brought to registers, and its results stored, as ``spread`` says.

    None where the layouts cross the axes of some value, so that an op in between cannot say what it does to them.
    """
    assert function.body is not None
    bound = [stmt for stmt in function.body.stmts if isinstance(stmt, Bind)]
    taken = [*(p.name for p in function.params), *(v.name for v in function.dim_vars())]
    names = Names([*taken, *(bind.target.name for bind in bound)])
    try:
        body = (
            _windowed(function, bound, spread, names)
            if spread.windows
            else _exact(function, bound, spread, names)
        )
    except TypeRuleError:
        return None
    return Function(function.name, function.params, function.result, body, topologies=spread.levels)


def _results(function: Function) -> list[Var]:
    assert function.body is not None
    return [atom for atom in function.body.results if isinstance(atom, Var)]


def _exact(function: Function, bound: list[Bind], spread: Spread, names: Names) -> Block:
    """One scope; a result keeps its name where it is stored."""
    writer, scope, results = Writer(names), names.fresh("m"), _results(function)
    for param, layout in zip(function.params, spread.inputs, strict=True):
        if layout is not None:
            writer.move(param, writer.own(param), layout, "rmem")
    writer.compute(bound, results)
    for var, layout in zip(results, spread.results, strict=True):
        writer.move(var, var.name, layout, "gmem")
    stmts = (MeshScope(scope, spread.mesh, tuple(writer.stmts)),)
    return Block(stmts, tuple(writer.values[var.name] for var in results))


def _windowed(function: Function, bound: list[Bind], spread: Spread, names: Names) -> Block:
    """Memory for the results, then tiles that the mesh's axes are handed in turn, in a scope."""
    return WindowWriter(function, spread, names).block(bound, _results(function))
