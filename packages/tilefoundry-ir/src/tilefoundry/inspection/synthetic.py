"""Modules that stand in for the children that a function calls into."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Union

from tilefoundry.inspection.reach import function_calls
from tilefoundry.inspection.same import SameDefinition
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["stand_in"]

Callee = Union[Function, PrimFunction]
Wanted = tuple[tuple[str, ...], Callee]


def stand_in(name: str, wanted: Iterable[Wanted], same: SameDefinition, entry: str | None = None) -> Module:
    """A module called ``name`` that resolves each (path below it, function) of ``wanted``.

    It holds exactly the functions reached: those named, the siblings they call, and children likewise.

    Raises:
        ValueError: one path names two different functions.
    """
    wanted = list(wanted)
    members: dict[str, Callee] = {}
    for path, function in wanted:
        if len(path) == 1:
            _add(name, members, function, same)
    below: dict[str, list[Wanted]] = {}
    for path, function in [*wanted, *_calls(members)]:
        if len(path) > 1:
            below.setdefault(path[0], []).append((path[1:], function))
    children = tuple(stand_in(child, paths, same) for child, paths in below.items())
    return Module(name, tuple(members.values()), entry, children)


def _calls(members: dict[str, Callee]) -> list[Wanted]:
    tensor_programs = [function for function in members.values() if isinstance(function, Function)]
    return [(call.path, call.callee) for function in tensor_programs for call in function_calls(function)]


def _add(owner: str, members: dict[str, Callee], function: Callee, same: SameDefinition) -> None:
    known = members.get(function.name)
    if known is not None:
        if not same.functions(known, function):
            raise ValueError(f"{owner}.{function.name} names two different functions in one program")
        return
    for call in function_calls(function) if isinstance(function, Function) else ():
        if not call.enters_child:
            _add(owner, members, call.callee, same)
    members[function.name] = function
