"""Statements of a function body as lines of Python.

Each bound value keeps its name, so the parser, which names a value after the first assignment of a name,
reads back equal statements. A loop's carried value is one Python name that the loop rebinds: the name of the
value inside the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.inspection.layout_text import reshard_layout
from tilefoundry.inspection.names import Header
from tilefoundry.inspection.reach import bound_names
from tilefoundry.inspection.values import dim_text, literal_text, value_text
from tilefoundry.ir.core.expr import (
    Atom,
    Bind,
    Block,
    Call,
    Constant,
    For,
    FunctionCall,
    MeshScope,
    Stmt,
    Var,
    walk_stmts,
)
from tilefoundry.ir.core.op import REQUIRED, Attr
from tilefoundry.ir.types import TupleType, Type

__all__ = ["BodyText"]

INDENT = "    "


class BodyText:
    """Renders the statements of one function; keeps what each value is called at the point reached."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._spelled: dict[str, str] = {}
        self._callees: dict[str, str] = {}
        self._value_names: set[str] = set()

    def lines(self, params: Sequence[Var], body: Block, result: Type) -> list[str]:
        """The body's statements and its ``return``, without indentation.

        Raises ValueError where a parameter has the name of something that the body calls.
        """
        self._spelled = {param.name: param.name for param in params}
        self._value_names = set(self._spelled)
        for stmt in walk_stmts(body.stmts):
            if not isinstance(stmt, MeshScope):
                self._value_names |= bound_names(stmt)
        out = [*self._callee_aliases(params, body), *self._block(body.stmts)]
        values = [self._atom(atom) for atom in body.results]
        if isinstance(result, TupleType) and len(values) == 1:
            return [*out, f"return ({values[0]},)"]
        return [*out, f"return {', '.join(values)}"]

    def _callee_aliases(self, params: Sequence[Var], body: Block) -> list[str]:
        """Other names, kept at the start, for what the body calls and then binds a value over."""
        bound = self._value_names | {s.name for s in walk_stmts(body.stmts) if isinstance(s, MeshScope)}
        called: dict[str, None] = {}
        for stmt in walk_stmts(body.stmts):
            if isinstance(stmt, Bind) and isinstance(stmt.value, FunctionCall):
                called[stmt.value.path[0]] = None
        hidden = [param.name for param in params if param.name in called]
        if hidden:
            raise ValueError(
                f"the parameter {hidden[0]} hides the function or child {hidden[0]} that the body calls"
            )
        self._callees = {name: self._header.fresh(name) for name in called if name in bound}
        return [f"{alias} = {name}" for name, alias in self._callees.items()]

    def _block(self, stmts: tuple[Stmt, ...]) -> list[str]:
        return [line for stmt in stmts for line in self._stmt(stmt)]

    def _stmt(self, stmt: Stmt) -> list[str]:
        if isinstance(stmt, Bind):
            text = f"{stmt.target.name} = {self._value(stmt.value)}"
            self._spelled[stmt.target.name] = stmt.target.name
            return [text]
        if isinstance(stmt, MeshScope):
            return self._scope(stmt)
        return self._loop(stmt)

    def _scope(self, scope: MeshScope) -> list[str]:
        kept = self._kept_from(scope.name)
        head = f"with {value_text(scope.mesh, self._header)} as {scope.name}:"
        named = scope.name not in self._value_names
        if named:
            self._header.push_scope(scope.name, scope.mesh)
        inner = self._block(scope.stmts) or ["pass"]
        if named:
            self._header.pop_scope()
        return [*kept, head, *(INDENT + line for line in inner)]

    def _kept_from(self, name: str) -> list[str]:
        """Another name for a value that the name of a mesh is about to hide."""
        hidden = [value for value, spelled in self._spelled.items() if spelled == name]
        alias = self._header.fresh(name) if hidden else ""
        self._spelled.update(dict.fromkeys(hidden, alias))
        return [f"{alias} = {name}"] if hidden else []

    def _loop(self, loop: For) -> list[str]:
        names = [carry.inner.name for carry in loop.carries]
        before = [
            f"{name} = {self._atom(carry.initial)}" for name, carry in zip(names, loop.carries, strict=True)
        ]
        head = f"for {loop.index.name} in {self._extent(loop)}:"
        index = loop.index.name
        # A tile's variable is a window; the extent that a program computes with is where the window starts.
        self._header.push_index(index, f"{index}.start" if loop.kind == "tile" else index)
        if loop.window is not None:
            self._header.push_index(loop.window.name, f"{index}.extent")
        self._spelled.update({name: name for name in names})
        inner = self._block(loop.body.stmts)
        if names:
            inner.append(f"{', '.join(names)} = {', '.join(map(self._atom, loop.body.results))}")
        self._header.pop_index(index)
        if loop.window is not None:
            self._header.pop_index(loop.window.name)
        self._spelled.update(
            (carry.result.name, name) for name, carry in zip(names, loop.carries, strict=True)
        )
        return [*before, head, *(INDENT + line for line in inner or ["pass"])]

    def _extent(self, loop: For) -> str:
        start, stop, step = (dim_text(dim, self._header) for dim in (loop.start, loop.stop, loop.step))
        if loop.kind == "tile":
            over = f", over={loop.over}" if loop.over else ""
            return f"{self._header.name('tile')}({stop}, {step}{over})"
        if (start, step) == ("0", "1"):
            return f"range({stop})"
        return f"range({start}, {stop})" if step == "1" else f"range({start}, {stop}, {step})"

    def _value(self, value: Call | FunctionCall) -> str:
        args = [self._atom(arg) for arg in value.args]
        if isinstance(value, FunctionCall):
            root, *rest = value.path
            if rest == [root] and root in self._header.lone_children:
                rest = []
            return f"{'.'.join([self._callees.get(root, root), *rest])}({', '.join(args)})"
        schema = {attr.name: attr for attr in value.op.attrs}
        written = reshard_layout(value, self._header) if value.op.name == "reshard" else None
        for name, given in value.attrs:
            if not _is_default(schema[name], given):
                text = value_text(given, self._header) if written is None or name != "layout" else written
                args.append(f"{name}={text}")
        return f"{self._header.name('tf')}.{value.op.name}({', '.join(args)})"

    def _atom(self, atom: Atom) -> str:
        if isinstance(atom, Constant):
            return literal_text(atom.value, self._header)
        return self._spelled.get(atom.name, atom.name)


def _is_default(attr: Attr, given: object) -> bool:
    """True where leaving the attribute out gives ``given`` again; spelling counts, so 1 is not 1.0."""
    if attr.default is REQUIRED:
        return False
    default = attr.default if attr.convert is None else attr.convert(attr.default)
    return repr(default) == repr(given)
