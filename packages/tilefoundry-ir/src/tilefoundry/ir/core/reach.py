"""Weights of child modules that a function reads through the calls it makes."""

from __future__ import annotations

from collections.abc import Iterator

from tilefoundry.ir.core.expr import Bind, FunctionCall, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["child_constants"]


def child_constants(function: Function) -> tuple[tuple[tuple[str, ...], Var], ...]:
    """(path of the child module, weight) for every weight that ``function`` reaches below its own module.

    In call order, each once; calls made by siblings and by the children's own functions count.
    """
    return tuple(dict.fromkeys(_reached(function, ())))


def _reached(
    function: Function | PrimFunction, prefix: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Var]]:
    if isinstance(function, PrimFunction):
        return
    for body in (function, *(variant.function for variant in function.variants)):
        for call in _calls(body):
            path = prefix + call.path[:-1]
            if call.enters_child:
                yield from ((path, var) for var in call.callee.constants)
            yield from _reached(call.callee, path)


def _calls(function: Function) -> Iterator[FunctionCall]:
    for stmt in function.stmts():
        if isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall):
            yield stmt.value
