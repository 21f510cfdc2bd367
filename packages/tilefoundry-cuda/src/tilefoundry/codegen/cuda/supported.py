"""What the CUDA target computes, and what it refuses by name."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.partition import is_view
from tilefoundry.codegen.cpu.supported import SUPPORTED_OPS
from tilefoundry.ir.core.expr import Bind, Call
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import UnsupportedError
from tilefoundry.ir.hir.function import Function

__all__ = ["SUPPORTED_OPS", "CheckSupported", "host_answers"]


def host_answers(call: Call) -> bool:
    """Whether the host answers ``call`` with a view; a window whose start lies on the device is copied there."""
    if call.op.name == "slice" and len(call.args) > 1:
        return False
    return is_view(call)


@dataclass(frozen=True, slots=True)
class CheckSupported:
    """The module, unchanged, once every op in it is one that the target computes.

    Raises:
        UnsupportedError: naming the value and the op.
    """

    def run(self, module: Module) -> Module:
        """``module`` itself."""
        for function in module.functions:
            if isinstance(function, Function):
                _check(function)
        return module


def _check(function: Function) -> None:
    for stmt in function.stmts():
        if (
            isinstance(stmt, Bind)
            and isinstance(stmt.value, Call)
            and stmt.value.op.name not in SUPPORTED_OPS
        ):
            raise UnsupportedError(
                f"{function.name}: {stmt.target.name} = tf.{stmt.value.op.name}(...) is not compiled for the cuda "
                "target; write it with other ops, or run it with tilefoundry.evaluate"
            )
    for variant in function.variants:
        _check(variant.function)
