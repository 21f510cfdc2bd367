"""Shared memory beyond what a kernel may declare itself lies in what its launch gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilefoundry.codegen.cuda.tiles import TileShared, TileText, tile_bodies
from tilefoundry.ir.tir import MeshScope

__all__ = ["MOST_DECLARED", "placed_in_launch"]

MOST_DECLARED = 48 * 1024
"""Bytes of shared memory that a kernel may declare itself."""


def placed_in_launch(stmts: Sequence[Any]) -> tuple[Any, ...]:
    """The statements of a kernel, every piece of shared memory at its offset from the launch's."""
    at = [0]

    def moved(stmt: Any) -> Any:
        if isinstance(stmt, TileShared):
            offset = at[0]
            at[0] += stmt.bytes
            return replace(stmt, offset=offset)
        if isinstance(stmt, MeshScope) or tile_bodies(stmt):
            return replace(stmt, body=tuple(moved(inner) for inner in stmt.body))
        return stmt

    declared = TileText("extern __shared__ __align__(1024) unsigned char shared_[];")
    return (declared, *(moved(stmt) for stmt in stmts))
