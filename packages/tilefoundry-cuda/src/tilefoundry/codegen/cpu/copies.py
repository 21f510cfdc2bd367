"""Kernels that only move elements from one view to another, or write a literal."""

from __future__ import annotations

from tilefoundry.codegen.cpu.schedule import KernelSpec
from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Bind, Block, Constant, Var
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.types import DimVar, DType, TensorType

__all__ = ["copy_kernel", "index_kernel", "literal_kernel"]


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


def index_kernel(name: str, index: str, target: View) -> KernelSpec:
    """A kernel that writes a loop's index, which the host passes by its name, into ``target``: i64[1]."""
    here = DimVar(index, 0, 2**62)
    call = HIR_OPS["arange"].call((), {"start": here, "end": here + 1, "step": 1, "dtype": DType.i64})
    written = Var(call.type, "written")
    function = Function(name, (), call.type, Block((Bind(written, call),), (written,)), topologies=())
    return KernelSpec(function, (), (target,))
