"""Give every kernel that nobody placed its mesh."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.codegen.cpu.bufferise import Bufferise
from tilefoundry.codegen.cpu.kernel_calls import map_kernels
from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cuda.open_scopes import with_open_scope
from tilefoundry.codegen.cuda.schedule import instances_for
from tilefoundry.codegen.cuda.spreads import chosen_spread, with_layouts
from tilefoundry.ir.core.expr import MeshScope
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir import PrimFunction

__all__ = ["ChooseMeshes"]


@dataclass(frozen=True, slots=True)
class ChooseMeshes:
    """Before: an entry of views and calls of kernels, some of which have scopes. After: the same, every kernel with a
    scope and the levels of its mesh, and a child of the module. Values have layouts where these can say what the
    schedule does; others stay open. The module's text reads back as a program that is compiled to the same code.

    Which mesh suits a kernel depends on where its operands lie, so memory is laid out for a look at it.
    """

    def run(self, module: Module) -> Module:
        """``module`` with a mesh in every kernel."""
        specs = _Specs()
        Bufferise(specs.note, _as_it_is).run(module)
        return map_kernels(module, lambda kernel: _placed(kernel, specs.found))


@dataclass(slots=True)
class _Specs:
    """A scheduler that writes nothing and keeps what it was asked for."""

    found: dict[str, KernelSpec] = field(default_factory=dict)

    def note(self, spec: KernelSpec) -> PrimFunction:
        """Remember the kernel."""
        self.found[spec.function.name] = spec
        return PrimFunction(spec.function.name, (), (), 0)


def _as_it_is(statements: PrimFunction) -> PrimFunction:
    return statements


def _placed(kernel: Function, specs: dict[str, KernelSpec]) -> Function:
    if any(isinstance(stmt, MeshScope) for stmt in kernel.stmts()):
        return kernel
    spec = specs[kernel.name]
    spread = chosen_spread(spec)
    laid_out = None if spread is None else with_layouts(kernel, spread)
    if laid_out is not None:
        return laid_out
    chosen = instances_for(spec)
    return with_open_scope(kernel, chosen.mesh, chosen.levels)
