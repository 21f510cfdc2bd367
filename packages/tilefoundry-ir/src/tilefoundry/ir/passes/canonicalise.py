"""Share equal calls and drop those that change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.core.exact import exact
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, Stmt, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.copying import Copier, Names
from tilefoundry.ir.passes.rebuild import map_functions, with_body
from tilefoundry.ir.types import TensorType

__all__ = ["Canonicalise"]

_MOVES = {"reshape", "transpose", "cast"}


@dataclass(frozen=True, slots=True)
class Canonicalise:
    """Equal calls on equal operands are computed once; identities (a reshape to the same shape, a cast to the
    same dtype, two transposes that cancel, a reshape of a reshape) are gone. Results are the same bits.
    """

    def run(self, module: Module) -> Module:
        """``module`` with every HIR body in canonical form."""
        return map_functions(module, _canonical)


def _canonical(function: Function) -> Function:
    if function.body is None:
        return function
    names = Names(p.name for p in function.params)
    copier = _Canoniser(names, values={p.name: p for p in function.params})
    return with_body(function, copier.block(function.body))


class _Canoniser(Copier):
    """A copier that answers a call seen before, or one that changes nothing, by an existing value."""

    __slots__ = ("_calls", "_seen")

    def __init__(self, names: Names, values: dict[str, Atom]) -> None:
        super().__init__(names, values=values)
        self._seen: dict[Any, Var] = {}
        self._calls: dict[str, Call] = {}

    def block(self, block: Block) -> Block:
        """As in Copier; a value of an inner block is not seen outside of it."""
        seen, calls = dict(self._seen), dict(self._calls)
        copy = Copier.block(self, block)
        self._seen, self._calls = seen, calls
        return copy

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """As in Copier, or nothing where an existing value serves."""
        copied = Copier.stmt(self, stmt)
        bind = copied[0] if len(copied) == 1 else None
        value = bind.value if isinstance(bind, Bind) else None
        if not isinstance(bind, Bind) or not isinstance(value, Call):
            return copied
        call = self._simplified(value)
        if isinstance(call, Call):
            known = self._seen.get(_key(call))
            if known is None:
                self._seen[_key(call)] = bind.target
                self._calls[bind.target.name] = call
                return (Bind(bind.target, call),)
            call = known
        assert isinstance(stmt, Bind)
        self.values[stmt.target.name] = call
        return ()

    def _simplified(self, call: Call) -> Call | Atom:
        name = call.op.name
        if name not in _MOVES or not isinstance(call.args[0], Var):
            return call
        source = call.args[0]
        assert isinstance(source.type, TensorType) and isinstance(call.type, TensorType)
        if name == "transpose":
            return self._transpose(call, source)
        if source.type == call.type:
            return source
        inner = self._calls.get(source.name)
        if name == "reshape" and inner is not None and inner.op.name == "reshape":
            return self._simplified(call.op.call(inner.args, dict(call.attrs)))
        return call

    def _transpose(self, call: Call, source: Var) -> Call | Atom:
        perm = call.attr("perm")
        if perm == tuple(range(len(perm))):
            return source
        inner = self._calls.get(source.name)
        if inner is None or inner.op.name != "transpose":
            return call
        first = inner.attr("perm")
        joined = tuple(first[axis] for axis in perm)
        return self._simplified(call.op.call(inner.args, {"perm": joined}))


def _key(call: Call) -> Any:
    return (call.op.name, call.args, exact(call.attrs), call.type)
