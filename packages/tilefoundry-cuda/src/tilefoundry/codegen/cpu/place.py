"""The placement pass: a function becomes kernels and a host that calls them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tilefoundry.codegen.cpu.kernel_calls import map_kernels
from tilefoundry.codegen.cpu.nest import Nest
from tilefoundry.codegen.cpu.outline import Outliner
from tilefoundry.codegen.cpu.partition import any_nest, is_view, partition
from tilefoundry.ir.core.expr import Call
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.passes import Names, with_body

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Partition the entry into kernels.

    Before: a module of one flat HIR function without loops and scopes, whose calls are of kernels. After: a module
    with one child per kernel, whose entry holds calls of kernels and views only.

    Attributes:
        views: ops that the host answers without work.
        accepts: nests that can be one kernel.
    """

    views: Callable[[Call], bool] = is_view
    accepts: Callable[[Nest], bool] = any_nest

    def run(self, module: Module) -> Module:
        """``module`` with its kernels outlined."""
        entry = module.entry_function()
        assert isinstance(entry, Function)
        outliner = Outliner(Names(_taken(entry)), entry.params)
        placed = self._placed(entry, outliner)
        whole = Module(
            module.name, (placed,), placed.name, (), module.target, module.topologies, module.metadata
        )
        return map_kernels(whole, lambda kernel: kernel)

    def _placed(self, function: Function, outliner: Outliner) -> Function:
        body = function.body
        new = with_body(
            function,
            None
            if body is None
            else outliner.outline(partition(body, views=self.views, accepts=self.accepts), body.results),
        )
        if not function.variants:
            return new
        variants = tuple(Variant(v.pattern, self._placed(v.function, outliner)) for v in function.variants)
        return Function(new.name, new.params, new.result, new.body, target=new.target, variants=variants)


def _taken(function: Function) -> set[str]:
    names = {function.name, *(p.name for p in function.params)}
    names |= {bind.target.name for bind in function.stmts() if hasattr(bind, "target")}  # type: ignore[attr-defined]  # binds only
    for variant in function.variants:
        names |= _taken(variant.function)
    return names
