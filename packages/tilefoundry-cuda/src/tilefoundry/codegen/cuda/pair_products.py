"""Make one launch of two products of the same few rows, alike in all but their weights: a gate and what it gates.

The second's epilogue may read what the first's wrote, as the same thread has the sums of both at one place.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from tilefoundry.codegen.cpu.emit.source import written_buffers
from tilefoundry.codegen.cpu.inplace import INPLACE
from tilefoundry.codegen.cuda.launch_memory import Places, loads_in, shared_places, touched, with_slots
from tilefoundry.codegen.cuda.statements import Pack, TileMatmul, TilePair, inner_statements
from tilefoundry.codegen.launch_paths import JOINED
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.passes import Names
from tilefoundry.ir.tir import (
    Comment,
    DispatchCall,
    For,
    If,
    Launch,
    MeshScope,
    PrimFunction,
    TirStmt,
    walk_tir,
)
from tilefoundry.ir.types import Dim, DimVar
from tilefoundry.ir.types.dim import substitute

__all__ = ["PairProducts"]

_FEW_ROWS = 8
_ALIKE = ("batches", "rows", "columns", "threads")


@dataclass(frozen=True, slots=True)
class PairProducts:
    """Before: complete launches, each kernel as its own. After: two in a row whose kernels are products of the same few
    rows, in one tier, are one launch."""

    def run(self, module: Module) -> Module:
        """``module`` with pairs."""
        entry = module.entry_function()
        assert isinstance(entry, PrimFunction)
        kernels = {f.name: f for f in module.functions if isinstance(f, PrimFunction) and f is not entry}
        found = [stmt.callee for stmt in walk_tir(entry.body) if isinstance(stmt, Launch)]
        once = {name for name in found if found.count(name) == 1}
        pairs = _Pairs(kernels, once, Names(kernels))
        shared = shared_places(entry, module.metadata.get(INPLACE, ()))
        host = replace(entry, body=pairs.paired(entry.body, shared))
        functions = (*kernels.values(), host)
        return Module(
            module.name, functions, host.name, (), module.target, module.topologies, module.metadata
        )


@dataclass(slots=True)
class _Pairs:
    kernels: dict[str, PrimFunction]
    once: set[str]
    names: Names

    def paired(self, stmts: tuple[TirStmt, ...], places: Places) -> tuple[TirStmt, ...]:
        """A host's statements, neighbours that fit as one."""
        places = with_slots(stmts, places)
        out: list[TirStmt] = []
        for stmt in stmts:
            above = out[-1] if out else None
            both = (
                self._pair(above, stmt, places)
                if isinstance(above, Launch) and isinstance(stmt, Launch)
                else None
            )
            if both is None:
                out.append(self._inside(stmt, places))
            else:
                out[-1] = both
        return tuple(out)

    def _inside(self, stmt: TirStmt, places: Places) -> TirStmt:
        if isinstance(stmt, For):
            return replace(stmt, body=self.paired(stmt.body, places))
        if isinstance(stmt, If):
            return If(stmt.condition, self.paired(stmt.then, places), self.paired(stmt.orelse, places))
        if isinstance(stmt, DispatchCall):
            return replace(
                stmt, alternatives=tuple((one, self.paired(body, places)) for one, body in stmt.alternatives)
            )
        return stmt

    def _pair(self, above: Launch, below: Launch, places: Places) -> Launch | None:
        if not {above.callee, below.callee} <= self.once or above.attributes or below.attributes:
            return None
        one, two = self.kernels[above.callee], self.kernels[below.callee]
        first, second = _product(one), _product(two)
        args = _together(one, two, above, below)
        if (
            first is None
            or second is None
            or args is None
            or (above.grid, above.block) != (below.grid, below.block)
        ):
            return None
        if not (_alike(first, second) and _follows(first, second)):
            return None
        read, written = touched(one, above, places)
        if touched(two, below, places)[1] & (read | written):
            return None
        name = self.names.fresh(f"{one.name}_to_{two.name}")
        scope = next(stmt for stmt in one.body if isinstance(stmt, MeshScope))
        pair: Any = TilePair(first, second)
        comments = tuple(stmt for kernel in (one, two) for stmt in kernel.body if isinstance(stmt, Comment))
        del self.kernels[one.name], self.kernels[two.name]
        params = tuple(param for param, _ in args.values())
        self.kernels[name] = PrimFunction(name, params, (*comments, replace(scope, body=(pair,))), 0)
        given = tuple(arg for _, arg in args.values())
        return Launch(name, given, above.grid, above.block, ((JOINED, (one.name, two.name)),))


def _product(kernel: PrimFunction) -> TileMatmul | None:
    """The kernel's one product where it is one of few rows that streams its weights, and nothing else."""
    scopes = [stmt for stmt in kernel.body if not isinstance(stmt, Comment)]
    inner = list(scopes[0].body) if len(scopes) == 1 and isinstance(scopes[0], MeshScope) else []
    tile: Any = inner[0] if len(inner) == 1 else None
    if not isinstance(tile, TileMatmul):
        return None
    few = isinstance(tile.rows, int) and tile.rows <= _FEW_ROWS and isinstance(tile.columns, int)
    return tile if few and tile.rhs.strides[-2] == 1 else None


def _together(
    one: PrimFunction, two: PrimFunction, above: Launch, below: Launch
) -> dict[str, tuple[Var, Any]] | None:
    """Parameters of both with their arguments by name; None where a name means two things, or a thing has two names."""
    out: dict[str, tuple[Var, Any]] = {}
    for kernel, launch in ((one, above), (two, below)):
        for param, arg in zip(kernel.params, launch.args, strict=True):
            known = out.setdefault(param.name, (param, arg))
            if known[1] != arg:
                return None
    given = [arg for _, arg in out.values()]
    return None if any(given.count(arg) > 1 for arg in given) else out


def _alike(first: TileMatmul, second: TileMatmul) -> bool:
    kinds = first.rhs.type == second.rhs.type and first.rhs.strides == second.rhs.strides
    return first.lhs == second.lhs and kinds and all(getattr(first, n) == getattr(second, n) for n in _ALIKE)


def _follows(first: TileMatmul, second: TileMatmul) -> bool:
    """Whether what the second reads of the first's results lies where the same thread has put it."""
    results = {pack.buffer.name: _placed(pack, first) for pack in first.stores}
    registers = {pack.name.name for pack in first.stores}
    if written_buffers(tuple(inner_statements((first,)))) - registers != set(results):  # type: ignore[arg-type]  # a CUDA statement
        return False
    read = [pack for pack in second.loads if pack.buffer.name in results]
    apart = {second.lhs.buffer.name, second.rhs.buffer.name, *(load.buffer.name for load in loads_in(second))}
    return not apart & set(results) and all(
        _placed(pack, second) == results[pack.buffer.name] for pack in read
    )


def _placed(pack: Pack, tile: TileMatmul) -> Dim:
    """The pack's place in names that are the same for all products."""
    index: Any = pack.index
    names = {tile.batch.name: "batch", tile.row.name: "row", tile.first.name: "first"}
    return substitute(index, {old: DimVar(new, 0, 2**62) for old, new in names.items()})
