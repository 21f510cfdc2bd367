"""Mesh scopes whose values say nothing of their layout: the compiler spreads them over the mesh's instances."""

from __future__ import annotations

from tilefoundry.ir.core.expr import Bind, Block, Call, MeshScope, Stmt
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import Names, with_body
from tilefoundry.ir.types import TensorType, TupleType, Type
from tilefoundry.ir.types.shard import Mesh, Topology
from tilefoundry.ir.types.storage import StorageKind

__all__ = ["open_scope", "opened", "with_open_scope", "without_scope"]

_PLACING = frozenset({"reshard", "local"})
_SAYS_NOTHING = frozenset({StorageKind.UNDECIDED, StorageKind.GMEM})


def open_scope(function: Function) -> MeshScope | None:
    """The one scope that is all of the function's body and places no value itself; None for any other function."""
    body = function.body
    if body is None or len(body.stmts) != 1:
        return None
    scope = body.stmts[0]
    return scope if isinstance(scope, MeshScope) and all(map(_is_open, scope.stmts)) else None


def _is_open(stmt: Stmt) -> bool:
    if not isinstance(stmt, Bind) or not isinstance(stmt.value, Call):
        return False
    return stmt.value.op.name not in _PLACING and _says_nothing(stmt.target.type)


def _says_nothing(type_: Type) -> bool:
    if isinstance(type_, TupleType):
        return all(map(_says_nothing, type_.elements))
    assert isinstance(type_, TensorType)
    return type_.layout is None and type_.storage in _SAYS_NOTHING


def without_scope(function: Function) -> Function:
    """The function with its open scope's statements in its place, or as it is where it has none."""
    scope = open_scope(function)
    if scope is None:
        return function
    assert function.body is not None
    return with_body(function, Block(scope.stmts, function.body.results))


def with_open_scope(function: Function, mesh: Mesh, levels: tuple[Topology, ...]) -> Function:
    """The function, flat so far, as one open scope over ``mesh``, whose levels it declares."""
    assert function.body is not None
    taken = [*(p.name for p in function.params), *(v.name for v in function.dim_vars())]
    names = Names([*taken, *(stmt.target.name for stmt in function.stmts() if isinstance(stmt, Bind))])
    scope = MeshScope(names.fresh("m"), mesh, function.body.stmts)
    body = Block((scope,), function.body.results)
    return Function(function.name, function.params, function.result, body, topologies=levels)


def opened(function: Function, scope: MeshScope) -> Function:
    """The function, flat so far, as an open scope of the name and over the mesh of ``scope``; its levels stay."""
    assert function.body is not None
    return with_body(
        function, Block((MeshScope(scope.name, scope.mesh, function.body.stmts),), function.body.results)
    )
