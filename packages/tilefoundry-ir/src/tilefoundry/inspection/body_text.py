"""Statements of a function body as lines of Python.

Each bound value keeps its name, so the parser, which names a value after the first assignment of a name,
reads back equal statements. A loop's carried value is one Python name that the loop rebinds: the name of the
value inside the loop.
"""

from __future__ import annotations

from tilefoundry.inspection.names import Header
from tilefoundry.inspection.values import dim_text, literal_text, value_text
from tilefoundry.ir.core.expr import Atom, Bind, Block, Call, Constant, For, FunctionCall, MeshScope, Stmt
from tilefoundry.ir.core.op import REQUIRED, Attr
from tilefoundry.ir.types import TupleType, Type

__all__ = ["BodyText"]

INDENT = "    "


class BodyText:
    """Renders the statements of one function; keeps what each value is called at the point reached."""

    def __init__(self, header: Header) -> None:
        self._header = header
        self._spelled: dict[str, str] = {}

    def lines(self, body: Block, result: Type) -> list[str]:
        """The body's statements and its ``return``, without indentation."""
        out = self._block(body.stmts)
        values = [self._atom(atom) for atom in body.results]
        if isinstance(result, TupleType) and len(values) == 1:
            return [*out, f"return ({values[0]},)"]
        return [*out, f"return {', '.join(values)}"]

    def _block(self, stmts: tuple[Stmt, ...]) -> list[str]:
        return [line for stmt in stmts for line in self._stmt(stmt)]

    def _stmt(self, stmt: Stmt) -> list[str]:
        if isinstance(stmt, Bind):
            return [f"{stmt.target.name} = {self._value(stmt.value)}"]
        if isinstance(stmt, MeshScope):
            return self._scope(stmt)
        return self._loop(stmt)

    def _scope(self, scope: MeshScope) -> list[str]:
        inner = self._block(scope.stmts) or ["pass"]
        head = f"with {value_text(scope.mesh, self._header)} as {scope.name}:"
        return [head, *(INDENT + line for line in inner)]

    def _loop(self, loop: For) -> list[str]:
        names = [carry.inner.name for carry in loop.carries]
        before = [
            f"{name} = {self._atom(carry.initial)}" for name, carry in zip(names, loop.carries, strict=True)
        ]
        head = f"for {loop.index.name} in {self._extent(loop)}:"
        self._header.push_index(loop.index.name)
        inner = self._block(loop.body.stmts)
        if names:
            inner.append(f"{', '.join(names)} = {', '.join(map(self._atom, loop.body.results))}")
        self._header.pop_index()
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
            return f"{'.'.join(value.path)}({', '.join(args)})"
        schema = {attr.name: attr for attr in value.op.attrs}
        for name, given in value.attrs:
            if not _is_default(schema[name], given):
                args.append(f"{name}={value_text(given, self._header)}")
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
