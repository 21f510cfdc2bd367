"""The placement pass of the CPU target."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.outline import Outliner
from tilefoundry.codegen.cpu.partition import partition
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.passes.copying import Names
from tilefoundry.ir.passes.rebuild import with_body

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Partition the entry into kernels.

    Before: a module of one flat HIR function without loops, scopes and calls. After: a module with one child
    per kernel, whose entry holds calls of kernels and views only.
    """

    def run(self, module: Module) -> Module:
        """``module`` with its kernels outlined."""
        entry = module.entry_function()
        assert isinstance(entry, Function)
        outliner = Outliner(Names(_taken(entry)))
        placed = _placed(entry, outliner)
        return Module(
            module.name,
            (placed,),
            placed.name,
            tuple(outliner.kernels),
            module.target,
            module.topologies,
            module.metadata,
        )


def _placed(function: Function, outliner: Outliner) -> Function:
    body = function.body
    new = with_body(function, None if body is None else outliner.outline(partition(body), body.results))
    if not function.variants:
        return new
    variants = tuple(Variant(v.pattern, _placed(v.function, outliner)) for v in function.variants)
    return Function(new.name, new.params, new.result, new.body, target=new.target, variants=variants)


def _taken(function: Function) -> set[str]:
    names = {function.name, *(p.name for p in function.params)}
    names |= {bind.target.name for bind in function.stmts() if hasattr(bind, "target")}  # type: ignore[attr-defined]  # binds only
    for variant in function.variants:
        names |= _taken(variant.function)
    return names
