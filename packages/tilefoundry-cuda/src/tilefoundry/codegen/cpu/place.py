"""The placement pass: a function becomes kernels and a host that calls them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from tilefoundry.codegen.cpu.crossings import lessen_crossings
from tilefoundry.codegen.cpu.kernel_calls import map_kernels
from tilefoundry.codegen.cpu.nest import Nest
from tilefoundry.codegen.cpu.outline import Outliner
from tilefoundry.codegen.cpu.partition import any_nest, is_view, partition
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, For, Stmt
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function, Variant
from tilefoundry.ir.passes import Names, with_body

__all__ = ["Place"]


@dataclass(frozen=True, slots=True)
class Place:
    """Partition the entry into kernels.

    Before: a module of one flat HIR function without scopes, whose calls are of kernels; its loops are those that the
    host runs. After: a module with one child per kernel, whose entry holds calls of kernels, views and loops only.

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
            None if body is None else self._block(body, outliner),
        )
        if not function.variants:
            return new
        variants = tuple(Variant(v.pattern, self._placed(v.function, outliner)) for v in function.variants)
        return Function(new.name, new.params, new.result, new.body, target=new.target, variants=variants)

    def _block(self, block: Block, outliner: Outliner) -> Block:
        """Runs of binds between loops are partitioned one by one; a loop's body is a block of its own."""
        stmts: list[Stmt] = []
        rest = list(block.stmts)
        while rest:
            count = next((i for i, stmt in enumerate(rest) if isinstance(stmt, For)), len(rest))
            run, rest = rest[:count], rest[count:]
            used = tuple(dict.fromkeys([*_read_later(rest), *block.results]))
            groups = partition(Block(tuple(run), used), views=self.views, accepts=self.accepts)
            lessen_crossings(groups, used, self.accepts)
            stmts += outliner.outline(groups, used).stmts
            if rest:
                loop = rest.pop(0)
                assert isinstance(loop, For)
                stmts.append(replace(loop, body=self._block(loop.body, outliner)))
        return Block(tuple(stmts), block.results)


def _read_later(stmts: Sequence[Stmt]) -> Iterator[Atom]:
    """Every operand in ``stmts``, those of loops' bodies among them."""
    for stmt in stmts:
        if isinstance(stmt, Bind):
            yield from stmt.value.args
        elif isinstance(stmt, For):
            yield from (carry.initial for carry in stmt.carries)
            yield from _read_later(stmt.body.stmts)
            yield from stmt.body.results


def _taken(function: Function) -> set[str]:
    names = {function.name, *(p.name for p in function.params)}
    for stmt in function.stmts():
        if isinstance(stmt, Bind):
            names.add(stmt.target.name)
        elif isinstance(stmt, For):
            names.add(stmt.index.name)
            names |= {var.name for carry in stmt.carries for var in (carry.inner, carry.result)}
    for variant in function.variants:
        names |= _taken(variant.function)
    return names
