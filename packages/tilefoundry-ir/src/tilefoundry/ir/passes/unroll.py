"""Write loops out."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.core.expr import Bind, Call, Constant, For, Stmt
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.copying import Copier, Names
from tilefoundry.ir.passes.rebuild import map_functions, with_body
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.dim import lanes, product
from tilefoundry.ir.types.shard import Layout

__all__ = ["UnrollLoops"]


@dataclass(frozen=True, slots=True)
class UnrollLoops:
    """Loops with static bounds and at most ``limit`` turns are replaced by their bodies, one after the other,
    with the index a constant. Other loops stay.

    A last tile that the edge cuts is a value of its own size: no mesh distributes it any more.
    """

    limit: int = 256

    def run(self, module: Module) -> Module:
        """``module`` with short loops written out."""
        return map_functions(module, self._unrolled)

    def _unrolled(self, function: Function) -> Function:
        if function.body is None:
            return function
        names = Names(p.name for p in function.params)
        copier = _Unroller(names, self.limit, {p.name: p for p in function.params})
        return with_body(function, copier.block(function.body))


class _Unroller(Copier):
    __slots__ = ("_cut", "_limit")

    def __init__(self, names: Names, limit: int, values: dict) -> None:
        super().__init__(names, values=values)
        self._limit = limit
        self._cut = False

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """As in Copier, with short loops written out."""
        if isinstance(stmt, For) and all(isinstance(d, int) for d in (stmt.start, stmt.stop, stmt.step)):
            turns = range(stmt.start, stmt.stop, stmt.step)  # type: ignore[arg-type]  # ints, checked above
            if len(turns) <= self._limit:
                return self._turns(stmt, turns)
        return Copier.stmt(self, stmt)

    def _bind(self, bind: Bind) -> tuple[Stmt, ...]:
        value = bind.value
        if self._cut and isinstance(value, Call) and value.op.name == "reshard":
            held = self.atom(value.args[0]).type
            assert isinstance(held, TensorType)
            if product(value.attr("layout").shape) != product(map(lanes, held.shape)):
                attrs = {"layout": Layout(held.shape), "storage": value.attr("storage")}
                call = value.op.call((self.atom(value.args[0]),), attrs)
                return (Bind(self.define(bind.target, call.type), call),)
        return Copier._bind(self, bind)

    def _turns(self, loop: For, turns: range) -> tuple[Stmt, ...]:
        out: list[Stmt] = []
        carried = [self.atom(carry.initial) for carry in loop.carries]
        for turn in turns:
            self.values[loop.index.name] = Constant(loop.index.type, turn)
            self.dims[loop.index.name] = turn
            if loop.window is not None:
                self.dims[loop.window.name] = min(turns.step, turns.stop - turn)
            before, self._cut = self._cut, self._cut or turns.stop - turn < turns.step
            self.values.update((c.inner.name, atom) for c, atom in zip(loop.carries, carried, strict=True))
            out.extend(self.stmts(loop.body.stmts))
            self._cut = before
            carried = [self.atom(result) for result in loop.body.results]
        self.values.update((c.result.name, atom) for c, atom in zip(loop.carries, carried, strict=True))
        return tuple(out)
