"""Copy the functions of a module so that calls among them reach the copies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilefoundry.ir.core.expr import Bind, Block, Call, For, FunctionCall, MeshScope, Stmt
from tilefoundry.ir.hir.function import Function, Variant

__all__ = ["callee_below", "retarget_calls"]


def retarget_calls(functions: tuple[Any, ...], children: Sequence[Any] = ()) -> tuple[Any, ...]:
    """Fresh copies of ``functions``; a call of one of them by a later one calls the copy.

    A call into a child reaches the function that ``children`` (Modules) hold under its path. Functions that are no
    HIR ``Function`` are immutable and stay shared.
    """
    copies = _Copies({}, {child.name: child for child in children})
    return tuple(_copy(f, copies) if isinstance(f, Function) else f for f in functions)


def callee_below(children: Mapping[str, Any], path: Sequence[str]) -> Any:
    """The function that ``path`` reaches: names of children, the last one a function's.

    Raises ValueError where the first name is no child, KeyError where a later one does not resolve.
    """
    if path[0] not in children:
        raise ValueError(f"{'.'.join(path)} is called, but this module has no child {path[0]!r}")
    node = children[path[0]]
    for part in path[1:-1]:
        node = node.child(part)
    return node.lookup(path[-1])


@dataclass(frozen=True, slots=True)
class _Copies:
    """What calls are redirected to: copies of callees by identity, children by name."""

    made: dict[int, Function]
    children: Mapping[str, Any]


def _copy(function: Function, copies: _Copies) -> Function:
    copy = Function(
        function.name,
        function.params,
        function.result,
        None if function.body is None else _block(function.body, copies),
        topologies=function.topologies,
        target=function.target,
        converters=function.converters,
        variants=tuple(Variant(v.pattern, _copy(v.function, copies)) for v in function.variants),
    )
    copies.made[id(function)] = copy
    return copy


def _block(block: Block, copies: _Copies) -> Block:
    return Block(tuple(_stmt(stmt, copies) for stmt in block.stmts), block.results)


def _stmt(stmt: Stmt, copies: _Copies) -> Stmt:
    if isinstance(stmt, Bind):
        return replace(stmt, value=_value(stmt.value, copies))
    if isinstance(stmt, MeshScope):
        return replace(stmt, stmts=tuple(_stmt(inner, copies) for inner in stmt.stmts))
    assert isinstance(stmt, For)
    return replace(stmt, body=_block(stmt.body, copies))


def _value(value: Call | FunctionCall, copies: _Copies) -> Call | FunctionCall:
    if not isinstance(value, FunctionCall):
        return value
    if value.enters_child and value.path[0] in copies.children:
        return replace(value, callee=callee_below(copies.children, value.path))
    return replace(value, callee=copies.made.get(id(value.callee), value.callee))
