"""Rebuild modules and functions around changed bodies."""

from __future__ import annotations

from collections.abc import Callable

from tilefoundry.ir.core.expr import Block
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function, Variant

__all__ = ["map_functions", "with_body"]


def with_body(function: Function, body: Block | None) -> Function:
    """A copy of ``function`` with another body; variants and converters are kept."""
    return Function(
        function.name,
        function.params,
        function.result,
        body,
        topologies=function.topologies,
        target=function.target,
        converters=function.converters,
        variants=function.variants,
    )


def map_functions(module: Module, change: Callable[[Function], Function]) -> Module:
    """``module`` with ``change`` applied to every HIR function and variant, its own and its children's."""

    def changed(function: Function) -> Function:
        new = change(function)
        if not new.variants:
            return new
        variants = tuple(Variant(v.pattern, changed(v.function)) for v in new.variants)
        return Function(
            new.name,
            new.params,
            new.result,
            new.body,
            topologies=new.topologies,
            target=new.target,
            converters=new.converters,
            variants=variants,
        )

    return Module(
        module.name,
        tuple(changed(f) if isinstance(f, Function) else f for f in module.functions),
        module.entry,
        tuple(map_functions(child, change) for child in module.modules),
        module.target,
        module.topologies,
        module.metadata,
        module.methods,
    )
