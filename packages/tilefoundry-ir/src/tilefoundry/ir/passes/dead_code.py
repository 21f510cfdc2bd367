"""Drop what no result depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tilefoundry.ir.core.expr import Bind, Block, For, MeshScope, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.rebuild import map_functions, with_body

__all__ = ["RemoveDeadCode"]


@dataclass(frozen=True, slots=True)
class RemoveDeadCode:
    """Statements whose values are never used are gone; the results are the same, as HIR is pure."""

    def run(self, module: Module) -> Module:
        """``module`` with every HIR body cleaned."""
        return map_functions(module, _clean)


def _clean(function: Function) -> Function:
    if function.body is None:
        return function
    return with_body(function, _block(function.body))


def _block(block: Block) -> Block:
    used = {atom.name for atom in block.results if isinstance(atom, Var)}
    return Block(_stmts(block.stmts, used), block.results)


def _stmts(stmts: tuple[Stmt, ...], used: set[str]) -> tuple[Stmt, ...]:
    kept: list[Stmt] = []
    for stmt in reversed(stmts):
        new = _stmt(stmt, used)
        if new is not None:
            kept.append(new)
    return tuple(reversed(kept))


def _stmt(stmt: Stmt, used: set[str]) -> Stmt | None:
    if isinstance(stmt, Bind):
        if stmt.target.name not in used:
            return None
        used.update(arg.name for arg in stmt.value.args if isinstance(arg, Var))
        return stmt
    if isinstance(stmt, MeshScope):
        inner = _stmts(stmt.stmts, used)
        return replace(stmt, stmts=inner) if inner else None
    return _loop(stmt, used)


def _loop(loop: For, used: set[str]) -> Stmt | None:
    if not any(carry.result.name in used for carry in loop.carries):
        return None
    inner = {atom.name for atom in loop.body.results if isinstance(atom, Var)}
    body = Block(_stmts(loop.body.stmts, inner), loop.body.results)
    used.update(inner)
    used.update(carry.initial.name for carry in loop.carries if isinstance(carry.initial, Var))
    return replace(loop, body=body)
