"""``with Mesh(...) as c:`` scopes and the ``N @ c.axis`` spelling of layouts."""

from __future__ import annotations

import ast
from typing import Any

from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.ir.core.expr import MeshScope
from tilefoundry.ir.types.shard import Mesh, level_axes

__all__ = ["MESHES", "MESH_EXPRESSIONS", "read_scope"]


def _read_with(ctx: BodyContext, node: ast.With) -> None:
    ctx.stmts.append(MeshScope(*read_scope(ctx, node)))


def read_scope(ctx: BodyContext, node: ast.With) -> tuple[str, Mesh, tuple[Any, ...]]:
    """The name, the mesh and the statements of a ``with`` statement."""
    if len(node.items) != 1:
        raise ctx.error(node, "one mesh per with statement; nest them")
    item = node.items[0]
    mesh = ctx.read(item.context_expr)
    if is_value(mesh) or not isinstance(mesh, Mesh):
        raise ctx.error(item.context_expr, f"with opens the scope of a Mesh, got {describe(mesh)}")
    if not isinstance(item.optional_vars, ast.Name):
        raise ctx.error(node, "name the scope's mesh: with Mesh(...) as c:")
    name = item.optional_vars.id
    _check_levels(ctx, item.context_expr, mesh)
    ctx.locals[name] = mesh
    ctx.scopes.append((name, mesh))
    with ctx.collecting() as stmts:
        ctx.run(node.body)
    ctx.scopes.pop()
    return name, mesh, tuple(stmts)


def _check_levels(ctx: BodyContext, node: ast.expr, mesh: Mesh) -> None:
    """The mesh's levels are in force, where any were declared, and its axes divide among them."""
    if ctx.topologies is None:
        return
    known = [level.name for level in ctx.topologies]
    for name in mesh.level_names:
        if name not in known:
            levels = ", ".join(known) or "none"
            raise ctx.error(node, f"the mesh uses the level {name!r}; levels in force: {levels}")
    with ctx.pointing_at(node):
        level_axes(mesh, ctx.topologies)


def _read_set(ctx: BodyContext, node: ast.Set, hint: str | None) -> frozenset[object]:
    """``{c.t @ P("sum")}`` beside a layout."""
    parts = [ctx.read_static(part, "an entry of a layout") for part in node.elts]
    with ctx.pointing_at(node):
        return frozenset(parts)


MESHES = {ast.With: _read_with}
MESH_EXPRESSIONS = {ast.Set: _read_set}
