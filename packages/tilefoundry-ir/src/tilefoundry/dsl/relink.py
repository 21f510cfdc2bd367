"""Point the calls of child modules at the functions of the children as they are attached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilefoundry.ir.core.expr import Bind, Block, For, FunctionCall, MeshScope, Stmt
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.core.retarget import callee_below

__all__ = ["relink_children"]


def relink_children(body: Block | None, children: Sequence[Module]) -> Block | None:
    """``body`` with every callee inside a child replaced by the function that the child holds under that path.

    A body is read before its class is complete, and an attached child may be a copy under another name.

    Raises ValueError for a call into a child that is not among ``children``.
    """
    if body is None:
        return None
    return _block(body, {child.name: child for child in children})


def _block(block: Block, children: dict[str, Module]) -> Block:
    return Block(tuple(_stmt(stmt, children) for stmt in block.stmts), block.results)


def _stmt(stmt: Stmt, children: dict[str, Module]) -> Stmt:
    if isinstance(stmt, Bind):
        return _bind(stmt, children)
    if isinstance(stmt, For):
        return replace(stmt, body=_block(stmt.body, children))
    assert isinstance(stmt, MeshScope)
    return replace(stmt, stmts=tuple(_stmt(inner, children) for inner in stmt.stmts))


def _bind(stmt: Bind, children: dict[str, Module]) -> Bind:
    value = stmt.value
    if not isinstance(value, FunctionCall) or not value.enters_child:
        return stmt
    callee = callee_below(children, value.path)
    return stmt if callee is value.callee else replace(stmt, value=replace(value, callee=callee))
