"""Child modules as a body sees them: how the caller's module reaches a function of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilefoundry.dsl.context import BodyContext
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["ChildRef", "FunctionRef", "callee_of", "child_of", "entry_of"]


@dataclass(frozen=True, slots=True)
class ChildRef:
    """A module below the caller's, and the names that lead to it."""

    module: Module
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function of a module below the caller's, and the names that lead to it."""

    function: Function | PrimFunction
    path: tuple[str, ...]


def child_of(ctx: BodyContext, base: Module | ChildRef | FunctionRef, name: str) -> Any:
    """What ``base.name`` is: a function of a child module, or a module below it.

    Raises:
        TypeError: no such member.
    """
    if isinstance(base, FunctionRef):
        raise TypeError(f"{'.'.join(base.path)} is a function; it has no member {name!r} to call")
    ref = base if isinstance(base, ChildRef) else _placed(ctx, base)
    found = ref.module.function_named(name)
    if found:
        return FunctionRef(found[0], (*ref.path, name))
    for child in ref.module.modules:
        if child.name == name:
            return ChildRef(child, (*ref.path, name))
    raise TypeError(
        f"the child module {'.'.join(ref.path)} has no function or child {name!r}; {ref.module.callables()}"
    )


def entry_of(ctx: BodyContext, base: Module | ChildRef) -> FunctionRef:
    """The entry of a child module.

    Raises:
        TypeError: a module that is no child of the caller's, or one without an entry.
    """
    ref = base if isinstance(base, ChildRef) else _placed(ctx, base)
    name = ref.module.entry
    if name is None:
        raise TypeError(
            f"the child module {'.'.join(ref.path)} has no entry to call; call one of its functions, "
            f"{ref.module.callables()}"
        )
    return FunctionRef(ref.module.lookup(name), (*ref.path, name))


def callee_of(ref: FunctionRef) -> Function | PrimFunction:
    """The function behind ``ref``; TypeError for a ``@prim_func`` whose call would have no value."""
    function = ref.function
    if isinstance(function, PrimFunction) and not function.output_count:
        raise TypeError(
            f"{'.'.join(ref.path)} is a @prim_func that stores to none of its parameters, so that a call has no value; "
            "store to its last ones"
        )
    return function


def _placed(ctx: BodyContext, module: Module) -> ChildRef:
    members = ctx.enclosure.members
    if members is None:
        raise TypeError(
            f"the module {module.name} cannot be called from a function outside a class: its weights would have "
            "no owner; put the function into a @module class that holds it"
        )
    name = _attribute_name(members, module)
    if name is None:
        raise TypeError(
            f"the module {module.name} is no child of the class that is being defined; attach it there first "
            f"({module.name.lower()} = {module.name})"
        )
    return ChildRef(module, (name,))


def _attribute_name(members: Mapping[str, Any], module: Module) -> str | None:
    for name, value in members.items():
        if value is module:
            return name
        if isinstance(value, (list, tuple)) and any(item is module for item in value):
            return module.name
    return None
