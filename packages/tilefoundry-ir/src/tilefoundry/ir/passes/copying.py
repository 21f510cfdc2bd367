"""Copy statements under a renaming: values, extents and names; every copied call is typed anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from enum import Enum
from typing import Any

from tilefoundry.ir.core.expr import (
    Atom,
    Bind,
    Block,
    Call,
    Carry,
    Constant,
    For,
    FunctionCall,
    MeshScope,
    Stmt,
    Var,
)
from tilefoundry.ir.types import Dim, DimExpr, DimVar, DType, TensorType, TupleType, Type, bounds, substitute

__all__ = ["Copier", "Names", "substitute_type", "substitute_value"]


class Names:
    """Gives out identifiers that are unique among those it has seen. Not thread-safe."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)
        self._next: dict[str, int] = {}

    def fresh(self, wish: str) -> str:
        """``wish`` itself where it is free, else ``wish_2``, ``wish_3``, ..."""
        name = wish
        while name in self._taken:
            self._next[wish] = self._next.get(wish, 1) + 1
            name = f"{wish}_{self._next[wish]}"
        self._taken.add(name)
        return name


def substitute_value(value: Any, dims: Mapping[str, Dim]) -> Any:
    """``value`` with the DimVars named in ``dims`` replaced wherever an extent occurs in it.

    Looks into tuples, types and dataclass records (layouts, meshes); other values come back unchanged.
    """
    if not dims:
        return value
    if isinstance(value, (DimVar, DimExpr)):
        return substitute(value, dims)
    if isinstance(value, (DType, Enum)):
        return value
    if isinstance(value, tuple):
        return tuple(substitute_value(item, dims) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        changed = {f.name: substitute_value(getattr(value, f.name), dims) for f in fields(value) if f.init}
        return replace(value, **changed)
    return value


def substitute_type(type_: Type, dims: Mapping[str, Dim]) -> Type:
    """``type_`` with the DimVars named in ``dims`` replaced."""
    if not dims:
        return type_
    if isinstance(type_, TupleType):
        return TupleType(tuple(substitute_type(element, dims) for element in type_.elements))
    shape = tuple(dim if isinstance(dim, int) else substitute(dim, dims) for dim in type_.shape)
    return TensorType(shape, type_.dtype, substitute_value(type_.layout, dims), type_.storage)


CallHook = Callable[[FunctionCall, Var, "Copier"], "tuple[Stmt, ...] | None"]


@dataclass(slots=True)
class Copier:
    """One copying of a body.

    Attributes:
        names: gives the copies' names.
        prefix: what copied names start with.
        values: name in the original -> atom in the copy; grows as statements are copied.
        dims: DimVar name in the original -> extent in the copy.
        on_call: may replace a function call by statements that bind the given target; None copies it.
        tuples: name of an original tuple that was taken apart -> its elements in the copy.
    """

    names: Names
    prefix: str = ""
    values: dict[str, Atom] = field(default_factory=dict)
    dims: dict[str, Dim] = field(default_factory=dict)
    on_call: CallHook | None = None
    tuples: dict[str, tuple[Atom, ...]] = field(default_factory=dict)

    def atom(self, atom: Atom) -> Atom:
        """The copy of an operand; a constant stays."""
        if isinstance(atom, Constant):
            return atom
        return self.values.get(atom.name, atom)

    def block(self, block: Block) -> Block:
        """The copy of a block."""
        stmts = self.stmts(block.stmts)
        return Block(stmts, tuple(self.atom(result) for result in block.results))

    def stmts(self, stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """The copies of statements, in order."""
        out: list[Stmt] = []
        for stmt in stmts:
            out.extend(self.stmt(stmt))
        return tuple(out)

    def stmt(self, stmt: Stmt) -> tuple[Stmt, ...]:
        """The copy of one statement: several where a call was replaced, none where it became an atom."""
        if isinstance(stmt, Bind):
            return self._bind(stmt)
        if isinstance(stmt, MeshScope):
            return (replace(stmt, mesh=substitute_value(stmt.mesh, self.dims), stmts=self.stmts(stmt.stmts)),)
        return (self._loop(stmt),)

    def define(self, var: Var, type_: Type) -> Var:
        """A fresh name for ``var`` in the copy, recorded for later uses."""
        copy = Var(type_, self.names.fresh(self.prefix + var.name))
        self.values[var.name] = copy
        return copy

    def _bind(self, bind: Bind) -> tuple[Stmt, ...]:
        if self._take_element(bind):
            return ()
        args = tuple(self.atom(arg) for arg in bind.value.args)
        if isinstance(bind.value, Call):
            attrs = {name: substitute_value(value, self.dims) for name, value in bind.value.attrs}
            call = bind.value.op.call(args, attrs)
            return (Bind(self.define(bind.target, call.type), call),)
        call = FunctionCall(
            substitute_type(bind.value.type, self.dims), bind.value.callee, bind.value.path, args
        )
        replaced = self.on_call(call, bind.target, self) if self.on_call else None
        if replaced is not None:
            return replaced
        return (Bind(self.define(bind.target, call.type), call),)

    def _take_element(self, bind: Bind) -> bool:
        """Where ``bind`` reads an element of a tuple that was taken apart, let its name stand for the element."""
        value = bind.value
        if (
            not isinstance(value, Call)
            or value.op.name != "tuple_get_item"
            or not isinstance(value.args[0], Var)
        ):
            return False
        elements = self.tuples.get(value.args[0].name)
        if elements is None:
            return False
        self.values[bind.target.name] = elements[value.attr("index")]
        return True

    def _loop(self, loop: For) -> For:
        start, stop, step = (substitute_value(dim, self.dims) for dim in (loop.start, loop.stop, loop.step))
        initial = [self.atom(carry.initial) for carry in loop.carries]
        index = self.define(loop.index, loop.index.type)
        low = bounds(start)[0]
        self.dims[loop.index.name] = DimVar(index.name, low, max(bounds(stop)[1], low + 1))
        window = None if loop.window is None else self._window(loop, index, stop, step)
        inner = [self.define(c.inner, substitute_type(c.inner.type, self.dims)) for c in loop.carries]
        body = self.block(loop.body)
        results = [self.define(c.result, substitute_type(c.result.type, self.dims)) for c in loop.carries]
        carries = tuple(Carry(*parts) for parts in zip(initial, inner, results, strict=True))
        return For(loop.kind, index, start, stop, step, carries, body, loop.over, window)

    def _window(self, loop: For, index: Var, stop: Dim, step: Dim) -> DimVar | None:
        """The copy of a tile's extent; None where the copied extents divide, so that no tile is cut.

        It stays named after the loop's index, as the parser names it.
        """
        window = loop.window
        assert window is not None
        if isinstance(step, int) and stop % step == 0:
            self.dims[window.name] = step
            return None
        rest = window.name.removeprefix(loop.index.name)
        wish = index.name + rest if rest != window.name else self.prefix + window.name
        copy = DimVar(self.names.fresh(wish), 1, bounds(step)[1] + 1, isinstance(step, int))
        self.dims[window.name] = copy
        return copy
