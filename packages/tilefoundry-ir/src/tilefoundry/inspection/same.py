"""Equality of definitions, each pair compared once however often calls reach it."""

from __future__ import annotations

from typing import Any

from tilefoundry.ir.core.expr import Bind, Block, For, FunctionCall, MeshScope
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function

__all__ = ["SameDefinition"]


class SameDefinition:
    """Compares functions and modules as ``==`` does, in time linear in their text; methods count by identity.

    Holds on to what it compared; make one per script.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._kept: list[Any] = []

    def modules(self, a: Module, b: Module, *, names: bool = True) -> bool:
        """True where the modules are equal; without ``names``, where renaming one would make them equal."""
        same_head = (
            (a.entry, a.target, a.topologies, dict(a.metadata))
            == (b.entry, b.target, b.topologies, dict(b.metadata))
            and dict(a.methods) == dict(b.methods)
            and len(a.functions) == len(b.functions)
            and len(a.modules) == len(b.modules)
        )
        if not same_head or (names and a.name != b.name):
            return False
        functions = zip(a.functions, b.functions, strict=True)
        children = zip(a.modules, b.modules, strict=True)
        return all(self.functions(f, g) for f, g in functions) and all(
            self.modules(c, d) for c, d in children
        )

    def functions(self, a: Any, b: Any) -> bool:
        """True where the functions are equal."""
        if a is b:
            return True
        if not (isinstance(a, Function) and isinstance(b, Function)):
            return a == b
        key = (id(a), id(b))
        if key not in self._known:
            self._kept += [a, b]
            self._known[key] = self._compare(a, b)
        return self._known[key]

    def _compare(self, a: Function, b: Function) -> bool:
        if (a.name, a.params, a.result, a.topologies, a.target) != (
            b.name,
            b.params,
            b.result,
            b.topologies,
            b.target,
        ):
            return False
        if list(a.converters) != list(b.converters) or [v.pattern for v in a.variants] != [
            v.pattern for v in b.variants
        ]:
            return False
        parts = [
            *zip(a.converters.values(), b.converters.values(), strict=True),
            *((v.function, w.function) for v, w in zip(a.variants, b.variants, strict=True)),
        ]
        return self._bodies(a.body, b.body) and all(self.functions(f, g) for f, g in parts)

    def _bodies(self, a: Block | None, b: Block | None) -> bool:
        if a is None or b is None:
            return a is b
        return a.results == b.results and self._stmts(a.stmts, b.stmts)

    def _stmts(self, a: tuple[Any, ...], b: tuple[Any, ...]) -> bool:
        return len(a) == len(b) and all(self._stmt(s, t) for s, t in zip(a, b, strict=True))

    def _stmt(self, a: Any, b: Any) -> bool:
        if type(a) is not type(b):
            return False
        if isinstance(a, Bind):
            return a.target == b.target and self._value(a.value, b.value)
        if isinstance(a, MeshScope):
            return (a.name, a.mesh) == (b.name, b.mesh) and self._stmts(a.stmts, b.stmts)
        assert isinstance(a, For)
        return _loop_head(a) == _loop_head(b) and self._bodies(a.body, b.body)

    def _value(self, a: Any, b: Any) -> bool:
        if a is b:
            return True
        if isinstance(a, FunctionCall) and isinstance(b, FunctionCall):
            return (a.path, a.args, a.type) == (b.path, b.args, b.type) and self.functions(a.callee, b.callee)
        return a == b


def _loop_head(loop: For) -> tuple[Any, ...]:
    return (loop.kind, loop.index, loop.start, loop.stop, loop.step, loop.carries, loop.over, loop.window)
