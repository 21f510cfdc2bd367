"""Functions that are kernels of the CPU as they stand."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.decompose import DecomposeRows
from tilefoundry.codegen.cpu.kernel_calls import map_kernels
from tilefoundry.codegen.cpu.launches import Levels
from tilefoundry.codegen.cpu.nest import Nest
from tilefoundry.codegen.cpu.partition import reads_inside
from tilefoundry.codegen.cpu.schedule.prologues import accepts
from tilefoundry.codegen.cpu.schedule.whole import is_whole_op
from tilefoundry.ir.core.expr import Bind, Call
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function

__all__ = ["SpellKernels", "declares_none", "is_kernel", "spelled"]


def declares_none(levels: Levels) -> bool:
    """Whether a function says that it has no levels: placement gives such kernels."""
    return levels == ()


def is_kernel(function: Function) -> bool:
    """Whether the ops of a flat function share one loop nest, or are one whole-tensor op."""
    stmts = spelled(function).stmts()
    binds = [stmt for stmt in stmts if isinstance(stmt, Bind) and isinstance(stmt.value, Call)]
    if not binds or len(binds) != len(stmts):
        return False
    if is_whole_op(function):
        return all(bind.value.op.name == "tuple_get_item" for bind in binds[1:])  # type: ignore[union-attr]  # Calls
    nest = Nest.of(binds, grow=True)
    return nest is not None and accepts(nest) and not reads_inside(binds)


@dataclass(frozen=True, slots=True)
class SpellKernels:
    """Before: an entry that may call kernels. After: the same, row ops in the kernels spelled out."""

    def run(self, module: Module) -> Module:
        """``module`` with kernels of elementwise ops, reductions and products."""
        return map_kernels(module, spelled)


def spelled(function: Function) -> Function:
    """The function with its row ops spelled out; its levels stay."""
    found = DecomposeRows().run(Module(function.name, (function,), function.name)).entry_function()
    assert isinstance(found, Function)
    return found
