"""Kernels that a tensor program calls and that are written as statements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilefoundry.codegen.cpu.views import View
from tilefoundry.ir.core.expr import Expr, FunctionCall, Var
from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import IndexValue, Launch, PrimFunction, walk_tir
from tilefoundry.ir.types import DimVar, TensorType
from tilefoundry.ir.types.shard import Topology

__all__ = ["StatementSpec", "kernel_name", "statements_kernel"]

_KERNEL = re.compile(r"k\d*_")


def kernel_name(name: str) -> str:
    """``name`` as kernels begin, so that it is none of the runtime's; placement gives such names too."""
    return name if _KERNEL.match(name) else f"k_{name}"


def statements_kernel(call: FunctionCall, levels: Sequence[Topology], names: Names) -> PrimFunction:
    """The statements that ``call`` reaches as a kernel with a name and levels of its own.

    Raises:
        LoweringError: they launch kernels themselves, or their extents are not those of the caller by name.
    """
    function = call.callee
    assert isinstance(function, PrimFunction)
    where = ".".join(call.path)
    if any(isinstance(stmt, Launch) for stmt in walk_tir(function.body)):
        raise LoweringError(
            f"{where} launches kernels, and a tensor program calls it: call what it launches, one by one, from there"
        )
    for param, argument in zip(function.inputs, call.args, strict=True):
        declared, given = param.type, argument.type
        assert isinstance(declared, TensorType) and isinstance(given, TensorType)
        if declared.shape != given.shape:
            raise LoweringError(
                f"{where}: {param.name} is {declared}, the call gives {given}: statements keep the extents that they "
                "are written with; declare the caller's own"
            )
    levels = tuple(function.topologies or levels)
    return replace(function, name=names.fresh(kernel_name(function.name)), topologies=levels)


@dataclass(frozen=True, slots=True)
class StatementSpec:
    """A kernel of statements and where its operands lie, each dense from the start of its buffer.

    Attributes:
        function: inputs before outputs.
        inputs: one view per input; outputs: one per output.
    """

    function: PrimFunction
    inputs: tuple[View, ...]
    outputs: tuple[View, ...]

    def launch(self, kernel: PrimFunction) -> Launch:
        """The launch of ``kernel``, the function with what its target adds: extents, which go by value, and memory."""
        views = (*self.inputs, *self.outputs)
        given = {p.name: view.buffer for p, view in zip(self.function.params, views, strict=True)}
        return Launch(kernel.name, tuple(_argument(param, given) for param in kernel.params))


def _argument(param: Var, given: Mapping[str, str]) -> Expr:
    if param.name in given:
        return Var(param.type, given[param.name])
    return IndexValue.of(DimVar(param.name, 0, 2**62)) if param.is_const else param
