"""``@module``: a class becomes a Module."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, FunctionType
from typing import Any, overload

from tilefoundry.dsl.authored import AuthoredFunction, Label
from tilefoundry.dsl.declarations import declare, settle
from tilefoundry.dsl.levels import checked_levels
from tilefoundry.dsl.relink import relink_children
from tilefoundry.dsl.source import SourceFile, briefly, load_class
from tilefoundry.ir.core.module import Module, unowned_copy
from tilefoundry.ir.errors import DslError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["module"]

# What Python itself puts into a class's namespace.
_PYTHON_NAMES = {
    "__annotate__",
    "__annotate_func__",
    "__annotations__",
    "__dict__",
    "__doc__",
    "__firstlineno__",
    "__module__",
    "__qualname__",
    "__static_attributes__",
    "__weakref__",
}


@overload
def module(cls: type, /) -> Module: ...
@overload
def module(
    *,
    entry: str | None = None,
    target: Any | None = None,
    topologies: Sequence[Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Callable[[type], Module]: ...
def module(
    cls: Any = None,
    /,
    *,
    entry: str | None = None,
    target: Any | None = None,
    topologies: Sequence[Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Any:
    """Make a class body a Module.

    Members are functions (``@func``, ``@prim_func``), child Modules, tuples or lists of already named
    Modules, and plain Python functions (methods). A child is named after its attribute.

    Args:
        cls: the class, when used as a bare ``@module``.
        entry: the function that a bare call runs.
        target: the Target of the whole tree; on a root only.
        topologies: the levels in force below: None inherits, ``()`` is explicitly none.
        metadata: free facts about the module; no part of the program.

    Returns:
        The Module, named after the class.

    Raises:
        DslError: a member of another kind, an empty body, a name defined twice; it says where.
    """
    frame = sys._getframe(1)
    if cls is not None:
        return _Declaration(frame, None, None, None, None).build(cls)
    return _Declaration(frame, entry, target, checked_levels("@module", topologies), metadata).build


class _Declaration:
    """One ``@module(...)`` between the evaluation of its arguments and the end of its class body."""

    def __init__(
        self,
        frame: FrameType,
        entry: str | None,
        target: Any,
        topologies: tuple[Any, ...] | None,
        metadata: Mapping[str, Any] | None,
    ) -> None:
        self.entry = entry
        self.target = target
        self.topologies = topologies
        self.metadata = metadata
        self.code = frame.f_code
        self.module_globals = frame.f_globals
        self.line = frame.f_lineno
        self.key = declare(frame, topologies)

    def build(self, cls: Any) -> Module:
        """The Module that the class body of ``cls`` describes."""
        settle(self.key)
        return briefly(lambda: self._build(cls))

    def _build(self, cls: Any) -> Module:
        if not isinstance(cls, type):
            raise TypeError(f"@module decorates a class, got {cls!r}")
        source, node = load_class(self.code, self.module_globals, cls.__name__, self.line)
        if node.bases or node.keywords:
            raise source.error(
                node, f"the module {cls.__name__} cannot have base classes; attach what it needs as members"
            )
        _check_defined_once(source, node)
        members = _Members(source, node)
        for name, value in vars(cls).items():
            if name not in _PYTHON_NAMES:
                members.add(name, value)
        if getattr(cls, "__annotations__", None):
            raise source.error(node, f"{cls.__name__}: a bare annotation is no member; give the name a value")
        members.check()
        return self._module(cls.__name__, members)

    def _module(self, name: str, members: _Members) -> Module:
        children = tuple(members.children)
        try:
            _relink(members.functions, children)
            return Module(
                name,
                tuple(members.functions),
                self.entry,
                children,
                self.target,
                self.topologies,
                self.metadata,
                methods=members.methods,
            )
        except DslError:
            raise
        except (TypeError, ValueError) as error:
            raise members.source.error(members.node, str(error)) from None


def _relink(functions: Sequence[Any], children: Sequence[Module]) -> None:
    for function in functions:
        if isinstance(function, AuthoredFunction) and not function.sealed:
            for definition in (function, *(variant.function for variant in function.variants)):
                definition.body = relink_children(definition.body, children)


class _Members:
    """The members of one class body, sorted by kind."""

    def __init__(self, source: SourceFile, node: ast.ClassDef) -> None:
        self.source = source
        self.node = node
        self.functions: list[Any] = []
        self.children: list[Module] = []
        self.methods: dict[str, FunctionType] = {}

    def add(self, name: str, value: Any) -> None:
        """Take one attribute of the class in; DslError where it is no member."""
        if isinstance(value, Label):
            return
        if name.startswith("__"):
            raise self._error(name, f"{name} is Python's own; a module runs its forward method or its entry")
        if isinstance(value, (Function, PrimFunction)):
            self._add_function(name, value)
        elif isinstance(value, Module):
            self.children.append(_named(value, name))
        elif isinstance(value, (tuple, list)) and all(isinstance(item, Module) for item in value):
            self.children.extend(_named(item, item.name) for item in value)
        elif isinstance(value, FunctionType):
            self.methods[name] = value
        else:
            raise self._error(name, _refusal(name, value))

    def check(self) -> None:
        """DslError for an empty body, and for two converters of one weight."""
        if not (self.functions or self.children or self.methods):
            raise self.source.error(
                self.node, f"the module {self.node.name} is empty; give it a @func, a child or a method"
            )
        owners: dict[str, AuthoredFunction] = {}
        for function in self.functions:
            for weight in function.converters if isinstance(function, AuthoredFunction) else ():
                first = owners.setdefault(weight, function)
                if first is not function:
                    reading = function.converter_sources[weight]
                    raise reading.source.error(
                        reading.node,
                        f"the weight {weight!r} already has a converter, on {first.name}; keep one of the two",
                    )

    def _add_function(self, name: str, value: Any) -> None:
        if value.name != name:
            raise self._error(
                name, f"{name} is the function {value.name}; a function keeps the name of its def"
            )
        self.functions.append(value)

    def _error(self, name: str, message: str) -> DslError:
        for stmt in self.node.body:
            if name in _bound_names(stmt):
                return self.source.error(stmt, message)
        return self.source.error(self.node, message)


def _named(child: Module, name: str) -> Module:
    """``child`` under ``name``, without an owner: a child that has one, or another name, is copied."""
    return child if child.name == name and child.owner is None else unowned_copy(child, name)


def _refusal(name: str, value: Any) -> str:
    if isinstance(value, type):
        return f"{name} is a plain class; decorate it with @module to make it a child"
    if name in ("entry", "target", "topologies", "metadata"):
        return f"{name} is no member of a module: say it to the decorator, @module({name}=...)"
    return (
        f"{name} is a {type(value).__name__}, which is no member of a module; members are functions, modules, "
        "tuples of modules and methods, so move constants outside the class"
    )


def _check_defined_once(source: SourceFile, node: ast.ClassDef) -> None:
    seen: set[str] = set()
    for stmt in node.body:
        if _is_labelled(stmt):
            continue
        for name in _bound_names(stmt):
            if name in seen:
                raise source.error(
                    stmt, f"{name} is defined twice in {node.name}; give each member its own name"
                )
            seen.add(name)


def _is_labelled(stmt: ast.stmt) -> bool:
    """True for the def of a converter or a variant, whose name is only a label."""
    return isinstance(stmt, ast.FunctionDef) and any(
        isinstance(d, ast.Call)
        and isinstance(d.func, ast.Attribute)
        and d.func.attr in ("converter", "specialize")
        for d in stmt.decorator_list
    )


def _bound_names(stmt: ast.stmt) -> list[str]:
    if isinstance(stmt, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return [stmt.name]
    targets = (
        stmt.targets
        if isinstance(stmt, ast.Assign)
        else [stmt.target]
        if isinstance(stmt, ast.AnnAssign)
        else []
    )
    return [target.id for target in targets if isinstance(target, ast.Name)]
