"""``@prim_func``: a Python ``def`` becomes a statement-level function over buffers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType, FunctionType
from typing import Any, overload

from tilefoundry.dsl.declarations import topologies_in_force
from tilefoundry.dsl.func_decorator import check_place
from tilefoundry.dsl.levels import checked_levels
from tilefoundry.dsl.prim.reader import read_prim_definition
from tilefoundry.dsl.scope import enclosure_of
from tilefoundry.dsl.source import briefly
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["prim_func"]


@overload
def prim_func(function: Callable[..., Any], /) -> PrimFunction: ...
@overload
def prim_func(
    *, topologies: Sequence[Any] | None = None, target: Any | None = None
) -> Callable[..., Any]: ...
def prim_func(
    function: Any = None, /, *, topologies: Sequence[Any] | None = None, target: Any | None = None
) -> Any:
    """Read a ``def`` as statements over buffers.

    Parameters are buffers, inputs before outputs; the outputs are the ones that the body stores to. ``T``
    holds the ops.

    Args:
        function: the def, when used as a bare ``@prim_func``.
        topologies: levels of its own: the function becomes a Module of one function (a child module inside
            a class body).
        target: its Target; only outside a class body.

    Returns:
        A ``PrimFunction``; a ``Module`` where ``topologies`` or ``target`` is given.

    Raises:
        DslError: the source is not available or is no statement-level program; it says where.
        TypeError: something else than a def is decorated.
    """
    if function is not None:
        frame = sys._getframe(1)
        return briefly(lambda: _author(function, frame, None, None))
    levels = checked_levels("@prim_func", topologies)

    def decorate(function: Any) -> Any:
        frame = sys._getframe(1)
        return briefly(lambda: _author(function, frame, levels, target))

    return decorate


def _author(function: Any, frame: FrameType, levels: tuple[Any, ...] | None, target: Any) -> Any:
    if not isinstance(function, FunctionType):
        raise TypeError(f"@prim_func decorates a def, got {type(function).__name__}: {function!r}")
    enclosure = enclosure_of(function, frame)
    in_force = levels if levels is not None else topologies_in_force(enclosure.frame)
    reading = read_prim_definition(function, enclosure, in_force)
    check_place(reading.source, reading.node, enclosure, target)
    if levels is None and target is None:
        return reading.function
    name = reading.function.name
    return Module(name, (reading.function,), name, target=target, topologies=levels)
