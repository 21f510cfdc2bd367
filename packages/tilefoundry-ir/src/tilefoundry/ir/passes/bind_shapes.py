"""Fix extents that are not known when a program is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilefoundry.ir.core.expr import Atom, FunctionCall, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.copying import Copier, Names, substitute_type, substitute_value
from tilefoundry.ir.passes.rebuild import map_functions

__all__ = ["BindShapes"]


@dataclass(frozen=True, slots=True)
class BindShapes:
    """Every DimVar named in ``extents`` replaced by its value.

    Before: calls are inlined. After: no type and no body mentions those DimVars, and a function with variants over
    one of them has the body of the variant that matches. Other DimVars stay.

    Args:
        extents: DimVar name and value, in pairs.

    Raises:
        LoweringError: a value outside the DimVar's range, or a call that is not inlined.
    """

    extents: tuple[tuple[str, int], ...]

    def run(self, module: Module) -> Module:
        """``module`` with the extents fixed in every HIR function."""
        return map_functions(module, self._bound)

    def _bound(self, function: Function) -> Function:
        extents = dict(self.extents)
        for var in function.dim_vars():
            value = extents.get(var.name)
            if value is not None and not var.lo <= value < var.hi:
                raise LoweringError(
                    f"{function.name}: {var.name} = {value} is outside its range [{var.lo}, {var.hi})"
                )
        source = _chosen(function, extents)
        params = tuple(Var(substitute_type(p.type, extents), p.name, p.is_const) for p in function.params)
        values: dict[str, Atom] = {p.name: p for p in params}
        copier = Copier(Names(values), values=values, dims=dict(extents), on_call=_refuse)
        return Function(
            function.name,
            params,
            substitute_type(function.result, extents),
            None if source.body is None else copier.block(source.body),
            topologies=substitute_value(function.topologies, extents),
            target=function.target,
            converters=function.converters,
            variants=() if source.body is not None else function.variants,
        )


def _chosen(function: Function, extents: Mapping[str, int]) -> Function:
    """The variant that the extents select; the function itself where they leave the choice open."""
    for variant in function.variants:
        value = extents.get(variant.pattern.name)
        if value is not None and variant.pattern.matches(value):
            return variant.function
    return function


def _refuse(call: FunctionCall, target: Var, copier: Copier) -> tuple[Stmt, ...] | None:
    raise LoweringError(f"{target.name}: calls {'.'.join(call.path)}; run InlineCalls before BindShapes")
