"""What a function or module refers to: calls, and every name that its text binds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilefoundry.inspection.tir_text import tir_names
from tilefoundry.ir.core.expr import Bind, FunctionCall, MeshScope, Stmt
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function

__all__ = ["bound_names", "function_calls", "names_of", "parts_of"]


def parts_of(function: Function) -> tuple[Function, ...]:
    """The function, its converters and its variants: every body that is printed with it."""
    return (function, *function.converters.values(), *(v.function for v in function.variants))


def function_calls(function: Function) -> Iterator[FunctionCall]:
    """Every call of another function in ``function``, its converters and its variants, in program order."""
    for part in parts_of(function):
        for stmt in part.stmts():
            if isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall):
                yield stmt.value


def names_of(node: Any) -> set[str]:
    """Every name that printing ``node`` binds or spells out, callees included."""
    found: set[str] = set()
    _collect(node, found, set())
    return found


def _collect(node: Any, found: set[str], seen: set[int]) -> None:
    if id(node) in seen:
        return
    seen.add(id(node))
    found.add(node.name)
    if isinstance(node, Module):
        found.update(node.methods)
        for member in (*node.modules, *node.functions):
            _collect(member, found, seen)
    elif isinstance(node, Function):
        for part in parts_of(node):
            found.add(part.name)
            _collect_body(part, found)
        for call in function_calls(node):
            found.update(call.path)
            _collect(call.callee, found, seen)
    else:
        found |= tir_names(node)


def _collect_body(function: Function, found: set[str]) -> None:
    found.update(p.name for p in function.params)
    for stmt in function.stmts():
        found |= bound_names(stmt)


def bound_names(stmt: Stmt) -> set[str]:
    """The names that one statement binds, not counting statements inside it."""
    if isinstance(stmt, Bind):
        return {stmt.target.name}
    if isinstance(stmt, MeshScope):
        return {stmt.name}
    return {stmt.index.name, *(name for c in stmt.carries for name in (c.inner.name, c.result.name))}
