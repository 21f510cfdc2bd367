"""``@func``: a Python ``def`` becomes a typed HIR function."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any, overload

from tilefoundry.dsl.authored import AuthoredFunction, Label, author
from tilefoundry.dsl.declarations import topologies_in_force
from tilefoundry.dsl.levels import checked_levels
from tilefoundry.dsl.scope import Enclosure, enclosure_of
from tilefoundry.dsl.source import SourceFile, briefly
from tilefoundry.ir.core.module import Module

__all__ = ["check_place", "func"]


@overload
def func(function: Callable[..., Any], /) -> AuthoredFunction: ...
@overload
def func(*, topologies: Sequence[Any] | None = None, target: Any | None = None) -> Callable[..., Any]: ...
def func(
    function: Any = None, /, *, topologies: Sequence[Any] | None = None, target: Any | None = None
) -> Any:
    """Read a ``def`` as a typed tensor program.

    The source is parsed and typed at once. Its names resolve through class bodies, the enclosing function,
    globals and builtins, innermost first.

    Args:
        function: the def, when used as a bare ``@func``.
        topologies: levels of its own: the function becomes a Module of one function (a child module inside
            a class body). ``()`` declares that it has none.
        target: its Target; only outside a class body.

    Returns:
        An ``AuthoredFunction``; a ``Module`` where ``topologies`` or ``target`` is given.

    Raises:
        DslError: the source is not available or is no program; it says where.
        TypeError: something else than a def is decorated.
    """
    if function is not None:
        frame = sys._getframe(1)
        return briefly(lambda: _author(function, frame, None, None))
    levels = checked_levels("@func", topologies)

    def decorate(function: Any) -> Any:
        frame = sys._getframe(1)
        return briefly(lambda: _author(function, frame, levels, target))

    return decorate


def _author(function: Any, frame: FrameType, levels: tuple[Any, ...] | None, target: Any) -> Any:
    if not isinstance(function, FunctionType):
        raise TypeError(f"@func decorates a def, got {type(function).__name__}: {function!r}")
    enclosure = enclosure_of(function, frame)
    in_force = levels if levels is not None else topologies_in_force(enclosure.frame)
    authored = author(function, enclosure, in_force, None, None)
    check_place(authored.reading.source, authored.reading.node, enclosure, target)
    if levels is None and target is None:
        return authored
    return Module(authored.name, (authored,), authored.name, target=target, topologies=levels)


def check_place(source: SourceFile, node: ast.FunctionDef, enclosure: Enclosure, target: Any) -> None:
    """DslError for a name that the class already has, and for a target declared inside a class."""
    members = enclosure.members
    if members is None:
        return
    if node.name in members and not isinstance(members[node.name], Label):
        raise source.error(node, f"{node.name} is defined twice in this class; give each member its own name")
    if target is not None:
        raise source.error(
            node, f"{node.name} declares a target inside a class; only the root module declares one"
        )
