"""Functions that are equal but for the names in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest

from tilefoundry.codegen.cuda.spreads.windows import tile_dims
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, For, MeshScope, Stmt, Var
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import substitute_value
from tilefoundry.ir.types import Dim

__all__ = ["alike", "first_difference"]


def alike(one: Function, other: Function) -> bool:
    """Whether renaming values, scopes and loops of ``one`` gives the body of ``other``; parameters keep their names."""
    if one.body is None or other.body is None:
        return False
    return _Likeness({param.name: param.name for param in one.params}).block(one.body, other.body)


def first_difference(one: Function, other: Function) -> tuple[Stmt | None, Stmt | None]:
    """The first statements of the two that keep them from being alike, None for one that is not there.

    Both are None where statements are alike, whatever the results are.
    """
    if one.body is None or other.body is None:
        return None, None
    likeness = _Likeness({param.name: param.name for param in one.params})
    likeness.block(one.body, other.body)
    return likeness.difference


@dataclass(slots=True)
class _Likeness:
    """What names of one function are in the other, so far."""

    names: dict[str, str]
    scopes: dict[str, str] = field(default_factory=dict)
    dims: dict[str, Dim] = field(default_factory=dict)
    difference: tuple[Stmt | None, Stmt | None] = (None, None)

    def block(self, one: Block, other: Block) -> bool:
        """Statements, then results."""
        return self._stmts(one.stmts, other.stmts) and self._atoms(one.results, other.results)

    def _stmts(self, one: tuple[Stmt, ...], other: tuple[Stmt, ...]) -> bool:
        for ours, theirs in zip_longest(one, other):
            if ours is None or theirs is None or not self._stmt(ours, theirs):
                if self.difference == (None, None):  # the innermost one was first
                    self.difference = ours, theirs
                return False
        return True

    def _stmt(self, one: Stmt, other: Stmt) -> bool:
        if isinstance(one, Bind) and isinstance(other, Bind):
            return self._bind(one, other)
        if isinstance(one, MeshScope) and isinstance(other, MeshScope):
            self.scopes[one.name] = other.name
            return one.mesh == other.mesh and self._stmts(one.stmts, other.stmts)
        return isinstance(one, For) and isinstance(other, For) and self._loop(one, other)

    def _bind(self, one: Bind, other: Bind) -> bool:
        ours, theirs = one.value, other.value
        if not isinstance(ours, Call) or not isinstance(theirs, Call) or ours.op is not theirs.op:
            return False
        self.names[one.target.name] = other.target.name
        return self._atoms(ours.args, theirs.args) and substitute_value(ours.attrs, self.dims) == theirs.attrs

    def _loop(self, one: For, other: For) -> bool:
        heads = [(loop.kind, loop.start, loop.stop, loop.step, len(loop.carries)) for loop in (one, other)]
        if heads[0] != heads[1] or self._axis(one.over) != other.over:
            return False
        for ours, theirs in zip(tile_dims(one), tile_dims(other), strict=True):
            if (ours is None) != (theirs is None):
                return False
            if ours is not None and theirs is not None:
                self.dims[ours.name] = theirs
        for mine, its in zip(one.carries, other.carries, strict=True):
            if not self._atoms((mine.initial,), (its.initial,)):
                return False
            self.names[mine.inner.name] = its.inner.name
            self.names[mine.result.name] = its.result.name
        return self.block(one.body, other.body)

    def _axis(self, over: str | None) -> str | None:
        if over is None:
            return None
        scope, _, axis = over.rpartition(".")
        return f"{self.scopes.get(scope, scope)}.{axis}"

    def _atoms(self, one: tuple[Atom, ...], other: tuple[Atom, ...]) -> bool:
        return len(one) == len(other) and all(map(self._atom, one, other))

    def _atom(self, one: Atom, other: Atom) -> bool:
        if isinstance(one, Var) and isinstance(other, Var):
            return self.names.get(one.name) == other.name
        return one == other
