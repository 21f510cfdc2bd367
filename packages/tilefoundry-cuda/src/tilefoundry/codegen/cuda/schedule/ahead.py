"""Reads of what rows share, put before the joins that they would otherwise wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilefoundry.codegen.cuda.statements import Pack, Packs
from tilefoundry.ir.tir import Let, TirStmt
from tilefoundry.ir.types import TensorType, dim_vars

__all__ = ["loads_ahead"]

_MOST_BYTES = 64
"""What a thread holds of it: more registers would leave fewer blocks to a multiprocessor."""


def loads_ahead(stmts: Sequence[TirStmt]) -> tuple[TirStmt, ...]:
    """The statements of a row that stays in registers, with packs of later loops read in the first.

    A row's weights and biases are used after its threads have met; read before, they arrive in the meantime.
    """
    loops = [i for i, stmt in enumerate(stmts) if isinstance(stmt, Packs)]
    if len(loops) < 2:
        return tuple(stmts)
    first = stmts[loops[0]]
    assert isinstance(first, Packs)
    if not first.again or first.staged or not any(pack.once for pack in first.loads):
        return tuple(stmts)
    late = {stmt.target.name for stmt in stmts[loops[0] :] if isinstance(stmt, Let)}
    ahead: list[Pack] = []
    for i in loops[1:]:
        stmt = stmts[i]
        assert isinstance(stmt, Packs)
        for pack in stmt.loads:
            if not pack.once and _bytes((*ahead, pack), first) <= _MOST_BYTES and _known(pack, late):
                ahead.append(pack)
    out = list(stmts)
    out[loops[0]] = replace(first, ahead=tuple(ahead))
    for i in loops[1:]:
        stmt = stmts[i]
        assert isinstance(stmt, Packs)
        out[i] = replace(stmt, loads=tuple(pack for pack in stmt.loads if pack not in ahead))
    return tuple(out)


def _bytes(packs: Sequence[Pack], loop: Packs) -> int:
    kinds = [pack.name.type for pack in packs]
    return sum(kind.dtype.itemsize for kind in kinds if isinstance(kind, TensorType)) * (loop.elements or 0)


def _known(pack: Pack, late: set[str]) -> bool:
    """Whether its place does not depend on what is computed later."""
    return not any(var.name in late for var in dim_vars(pack.index))
