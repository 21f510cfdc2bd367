"""Copy the functions of a module so that calls among them reach the copies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilefoundry.ir.core.expr import Bind, Block, Call, For, FunctionCall, MeshScope, Stmt
from tilefoundry.ir.hir.function import Function, Variant

__all__ = ["retarget_calls"]


def retarget_calls(functions: tuple[Any, ...]) -> tuple[Any, ...]:
    """Fresh copies of ``functions``; a call of one of them by a later one calls the copy.

    Functions that are no HIR ``Function`` are immutable and stay shared.
    """
    copies: dict[int, Function] = {}
    return tuple(_copy(f, copies) if isinstance(f, Function) else f for f in functions)


def _copy(function: Function, copies: dict[int, Function]) -> Function:
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
    copies[id(function)] = copy
    return copy


def _block(block: Block, copies: dict[int, Function]) -> Block:
    return Block(tuple(_stmt(stmt, copies) for stmt in block.stmts), block.results)


def _stmt(stmt: Stmt, copies: dict[int, Function]) -> Stmt:
    if isinstance(stmt, Bind):
        return replace(stmt, value=_value(stmt.value, copies))
    if isinstance(stmt, MeshScope):
        return replace(stmt, stmts=tuple(_stmt(inner, copies) for inner in stmt.stmts))
    assert isinstance(stmt, For)
    return replace(stmt, body=_block(stmt.body, copies))


def _value(value: Call | FunctionCall, copies: dict[int, Function]) -> Call | FunctionCall:
    if isinstance(value, FunctionCall) and id(value.callee) in copies:
        return replace(value, callee=copies[id(value.callee)])
    return value
