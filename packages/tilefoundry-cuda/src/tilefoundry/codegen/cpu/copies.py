"""Kernels that only move elements from one view to another, or write a literal."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Bind, Block, Constant, Var
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import TensorType

__all__ = ["copy_kernel", "literal_kernel"]


def copy_kernel(name: str, source: View, target: View) -> KernelSpec:
    """A kernel that writes what ``source`` shows into ``target``; both have one shape and dtype."""
    type_ = TensorType(source.shape, source.dtype)
    given = Var(type_, "source")
    call = HIR_OPS["cast"].call((given,), {"dtype": source.dtype})
    copied = Var(call.type, "copied")
    function = Function(name, (given,), call.type, Block((Bind(copied, call),), (copied,)), topologies=())
    return KernelSpec(function, (source,), (target,))


def literal_kernel(name: str, value: Constant, target: View) -> KernelSpec:
    """A kernel that writes one literal."""
    call = HIR_OPS["cast"].call((value,), {"dtype": target.dtype})
    written = Var(call.type, "written")
    function = Function(name, (), call.type, Block((Bind(written, call),), (written,)), topologies=())
    return KernelSpec(function, (), (target,))
