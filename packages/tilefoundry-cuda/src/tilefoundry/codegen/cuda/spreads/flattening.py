"""What a kernel with layouts computes, without them: the inverse of ``with_layouts``, for whatever looks like its work.

Whoever asks writes the layouts anew and compares; here nothing is checked beyond the form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, For, MeshScope, Stmt, Var
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes import with_body
from tilefoundry.ir.types import TensorType
from tilefoundry.ir.types.storage import StorageKind

__all__ = ["flattened"]


def flattened(function: Function) -> tuple[MeshScope, Function] | None:
    """The one scope of the function, and what it computes as a flat function, results named as they are stored.

    None for a function of another form.
    """
    if function.body is None or sum(isinstance(stmt, MeshScope) for stmt in function.body.stmts) != 1:
        return None
    scope = next(stmt for stmt in function.body.stmts if isinstance(stmt, MeshScope))
    walk = _Walk({param.name: param.name for param in function.params})
    if not walk.all(function.body.stmts):
        return None
    stored = [walk.stored.get(atom.name) for atom in function.body.results if isinstance(atom, Var)]
    if None in stored or len(set(stored)) != len(function.body.results):
        return None
    try:
        return scope, _flat(function, walk, [pair for pair in stored if pair is not None])
    except TypeRuleError:
        return None


@dataclass(slots=True)
class _Walk:
    """Notes of the statements, one by one.

    Attributes:
        aliases: names of what lies elsewhere, or is a tile -> the parameter that it is of.
        memory: names of what tiles are put into -> the first name that it had.
        parts: names of a result's stored part -> the value that was computed.
        stored: names of a result in memory -> (the value that was computed, the name that it is stored under).
        computed: the ops, in order.
        inside: whether the scope is open; what lies around it only gives and shapes memory.
    """

    aliases: dict[str, str]
    memory: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    stored: dict[str, tuple[str, str]] = field(default_factory=dict)
    computed: dict[str, Bind] = field(default_factory=dict)
    inside: bool = False

    def all(self, stmts: Sequence[Stmt]) -> bool:
        """Note statements; False where one has no place in a kernel of this form."""
        return all(map(self._stmt, stmts))

    def _stmt(self, stmt: Stmt) -> bool:
        if isinstance(stmt, MeshScope):
            self.inside = True
            found = self.all(stmt.stmts)
            self.inside = False
            return found
        if isinstance(stmt, For):
            return self._loop(stmt)
        call = stmt.value
        if not isinstance(call, Call):
            return False
        rule = _NOTES.get(call.op.name, _Walk._op)
        return rule(self, stmt.target, call)

    def _loop(self, loop: For) -> bool:
        for carry in loop.carries:
            if not isinstance(carry.initial, Var) or carry.initial.name not in self.memory:
                return False
            self.memory[carry.inner.name] = self.memory[carry.initial.name]
        if loop.kind != "tile" or not self.all(loop.body.stmts):
            return False
        for carry, result in zip(loop.carries, loop.body.results, strict=True):
            if not isinstance(result, Var) or result.name not in self.stored:
                return False
            self.stored[carry.result.name] = self.stored[result.name]
        return True

    def _zeros(self, target: Var, call: Call) -> bool:
        if self.inside:
            return self._op(target, call)
        self.memory[target.name] = target.name
        return True

    def _reshape(self, target: Var, call: Call) -> bool:
        """A parameter, or a result, in another shape."""
        source = call.args[0]
        if self.inside:
            return self._op(target, call)
        if isinstance(source, Var) and source.name in self.stored:
            self.stored[target.name] = self.stored[source.name]
            return True
        return self._alias(target, call)

    def _alias(self, target: Var, call: Call) -> bool:
        source = call.args[0]
        if len(call.args) != 1 or not isinstance(source, Var) or source.name not in self.aliases:
            return self._op(target, call)
        self.aliases[target.name] = self.aliases[source.name]
        return True

    def _reshard(self, target: Var, call: Call) -> bool:
        source = call.args[0]
        if not isinstance(source, Var):
            return False
        if source.name in self.computed and call.attr("storage") is StorageKind.GMEM:
            self.parts[target.name] = source.name
            self.stored[target.name] = (source.name, target.name)
            return True
        return source.name in self.aliases and self._alias(target, call)

    def _insert(self, target: Var, call: Call) -> bool:
        into, part = call.args[:2]
        if not isinstance(into, Var) or not isinstance(part, Var) or len(call.args) != 2:
            return False
        if into.name not in self.memory or part.name not in self.parts:
            return False
        self.stored[target.name] = (self.parts[part.name], self.memory[into.name])
        return True

    def _op(self, target: Var, call: Call) -> bool:
        self.computed[target.name] = Bind(target, call)
        operands = {arg.name for arg in call.args if isinstance(arg, Var)}
        known = operands <= self.aliases.keys() | self.computed.keys()
        return self.inside and known and call.op.name != "local" and isinstance(target.type, TensorType)


_NOTES = {
    "zeros": _Walk._zeros,
    "reshape": _Walk._reshape,
    "slice": _Walk._alias,
    "reshard": _Walk._reshard,
    "insert_slice": _Walk._insert,
}


def _flat(function: Function, walk: _Walk, stored: list[tuple[str, str]]) -> Function:
    """The ops over whole parameters, typed anew."""
    names = dict(stored)
    params = {param.name: param for param in function.params}
    values: dict[str, Atom] = {alias: params[name] for alias, name in walk.aliases.items()}
    stmts: list[Stmt] = []
    for name, bind in walk.computed.items():
        call = bind.value
        assert isinstance(call, Call)
        args = tuple(values[arg.name] if isinstance(arg, Var) else arg for arg in call.args)
        made = call.op.call(args, dict(call.attrs))
        var = Var(made.type, names.get(name, name))
        values[name] = var
        stmts.append(Bind(var, made))
    return with_body(function, Block(tuple(stmts), tuple(values[name] for name, _ in stored)))
