"""Refuse, by name, what a target does not compute."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.nest import ARRANGE, ELEMENTWISE, MEMORY_OPS
from tilefoundry.codegen.cpu.partition import VIEW_OPS
from tilefoundry.codegen.cpu.schedule.whole import WHOLE_OPS
from tilefoundry.ir.core.expr import Bind, Call, For, Stmt
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import UnsupportedError
from tilefoundry.ir.hir.function import Function

__all__ = ["SUPPORTED_OPS", "CheckSupported"]

SUPPORTED_OPS = frozenset(
    ELEMENTWISE | MEMORY_OPS | ARRANGE | VIEW_OPS | {"reduce", "attention"} | set(WHOLE_OPS)
)
"""Ops that placement knows, once row ops are spelled out and scopes are gone; of attention those are left that the
target has a kernel for."""


@dataclass(frozen=True, slots=True)
class CheckSupported:
    """The module, unchanged, once every op in it is one that the target computes.

    Attributes:
        target: the target's name, for the message.

    Raises:
        UnsupportedError: naming the value and the op, and the way out.
    """

    target: str

    def run(self, module: Module) -> Module:
        """``module`` itself."""
        for function in module.functions:
            if isinstance(function, Function):
                self._check(function)
        return module

    def _check(self, function: Function) -> None:
        for stmt in function.stmts():
            self._check_stmt(function.name, stmt)
        for variant in function.variants:
            self._check(variant.function)

    def _check_stmt(self, name: str, stmt: Stmt) -> None:
        if isinstance(stmt, For):
            for inner in stmt.body.stmts:
                self._check_stmt(name, inner)
        elif (
            isinstance(stmt, Bind)
            and isinstance(stmt.value, Call)
            and stmt.value.op.name not in SUPPORTED_OPS
        ):
            raise UnsupportedError(
                f"{name}: {stmt.target.name} = tf.{stmt.value.op.name}(...) is not compiled for the {self.target} "
                "target; write it with other ops, or run it with tilefoundry.evaluate"
            )
