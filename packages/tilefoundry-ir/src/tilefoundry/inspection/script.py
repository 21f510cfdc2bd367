"""Canonical text: a Python program of the DSL that reads back to an equal node."""

from __future__ import annotations

from typing import Any

from tilefoundry.inspection.body_text import INDENT
from tilefoundry.inspection.function_text import decorator_lines, function_lines
from tilefoundry.inspection.method_text import method_lines
from tilefoundry.inspection.names import Header
from tilefoundry.inspection.reach import function_calls, names_of
from tilefoundry.inspection.same import SameDefinition
from tilefoundry.inspection.synthetic import stand_in
from tilefoundry.inspection.tir_text import prim_lines
from tilefoundry.ir.core.expr import FunctionCall
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["as_script"]

Scope = dict[str, Any]


def as_script(node: Function | Module | PrimFunction, *, program_only: bool = False) -> str:
    """``node`` as a program of the DSL that Python can import.

    Running the text defines ``node.name`` as a node equal to ``node``. What the node calls outside itself is
    defined before it; children that differ in their name alone are written once and renamed. Equal nodes have
    equal text. A function that calls into child modules comes as the entry of a module of its own name, since
    only a class holds children.

    Args:
        node: a ``Function``, a ``Module``, or a ``PrimFunction``. Statements that lowering made and no author
            can write are listed for readers; such text does not read back.
        program_only: leave out what is no part of the program: orchestration methods, whose Python source
            need not be there then, and metadata, whose values need no text.

    Raises:
        TypeError: a node of another kind, or an attribute value that has no text.
        ValueError: a method without source; a name that an enclosing class hides from a callee; a callee
            outside the module that calls into children of its own.
    """
    if not isinstance(node, (Function, Module, PrimFunction)):
        raise TypeError(f"as_script takes a Function or a Module, got {type(node).__name__}")
    if isinstance(node, Function) and any(call.enters_child for call in function_calls(node)):
        node = stand_in(node.name, [((node.name,), node)], SameDefinition(), entry=node.name)
    script = _Script(Header(names_of(node)), program_only)
    script.define(node)
    return script.text()


class _Script:
    """The definitions written so far and what each top-level name stands for."""

    def __init__(self, header: Header, program_only: bool) -> None:
        self._header = header
        self._program_only = program_only
        self._same = SameDefinition()
        self._blocks: list[list[str]] = []
        self._bound: Scope = {}

    def text(self) -> str:
        blocks = [self._header.lines(), *self._blocks]
        return "\n\n\n".join("\n".join(block) for block in blocks) + "\n"

    def define(self, node: Function | Module | PrimFunction) -> None:
        """Write ``node`` at the top level unless its name stands for an equal one already."""
        known = self._bound.get(node.name)
        if known is not None and self._equal(known, node):
            return
        if isinstance(node, Function):
            self._define_needs(node, [])
            lines = function_lines(node, self._header)
        elif isinstance(node, PrimFunction):
            lines = prim_lines(node, self._header)
        else:
            lines = self._module_or_twin(node, self._bound, [])
        self._blocks.append(lines)
        self._bound[node.name] = node

    def _equal(self, a: object, b: object) -> bool:
        if isinstance(a, Module) and isinstance(b, Module):
            return self._same.modules(a, b)
        return not isinstance(a, Module) and not isinstance(b, Module) and self._same.functions(a, b)

    def _module_lines(self, module: Module, outer: list[Scope]) -> list[str]:
        head = decorator_lines(
            "module",
            self._header,
            entry=module.entry,
            target=module.target,
            topologies=module.topologies,
            metadata=None if self._program_only else dict(module.metadata) or None,
        )
        scope: Scope = {}
        members = self._children(module, scope, outer)
        self._header.lone_children = {child.name for child in module.modules if _is_lone(child)}
        for function in module.functions:
            members.append(self._member_function(function, scope, outer))
            scope[function.name] = function
        if not self._program_only:
            members += [method_lines(module.name, n, m, self._header) for n, m in module.methods.items()]
        return [*head, f"class {module.name}:", *_members(members)]

    def _children(self, module: Module, scope: Scope, outer: list[Scope]) -> list[list[str]]:
        out: list[list[str]] = []
        for child in module.modules:
            out.append(self._module_or_twin(child, scope, [*outer, scope]))
            scope[child.name] = child
        return out

    def _module_or_twin(self, module: Module, siblings: Scope, outer: list[Scope]) -> list[str]:
        """The definition of ``module``, or one line where a module beside it differs in its name alone."""
        for other in siblings.values():
            if isinstance(other, Module) and self._same.modules(other, module, names=False):
                return [f'{module.name} = {other.name}.renamed("{module.name}")']
        if outer and _is_lone(module):
            (function,) = module.functions
            assert isinstance(function, Function)
            self._define_needs(function, outer)
            return function_lines(function, self._header, module.topologies)
        return self._module_lines(module, outer)

    def _member_function(
        self, function: Function | PrimFunction, scope: Scope, outer: list[Scope]
    ) -> list[str]:
        if isinstance(function, PrimFunction):
            return prim_lines(function, self._header)
        self._define_needs(function, [*outer, scope])
        return function_lines(function, self._header)

    def _define_needs(self, function: Function, scopes: list[Scope]) -> None:
        """Define at the top level what ``function`` calls and its own module does not hold."""
        outside = [call for call in function_calls(function) if not self._is_member(call, scopes)]
        for call in outside:
            if call.enters_child:
                raise ValueError(
                    f"{function.name} calls {'.'.join(call.path)}, but its module has no such child"
                )
        needs = {call.path[0]: call.callee for call in outside}
        for scope in scopes:
            for name, node in needs.items():
                if name in scope and not self._equal(scope[name], node):
                    raise ValueError(
                        f"{function.name} calls {name}, but an enclosing module's {name} hides it; rename one"
                    )
        # Defining one callee may take the name of another; a second round settles any order that exists.
        for _ in range(2):
            for node in needs.values():
                self.define(node)
        lost = [name for name, node in needs.items() if not self._equal(self._bound[name], node)]
        if lost:
            raise ValueError(
                f"{function.name} reaches two different functions called {lost[0]}; rename one of them"
            )

    def _is_member(self, call: FunctionCall, scopes: list[Scope]) -> bool:
        member = scopes[-1].get(call.path[0]) if scopes else None
        if isinstance(member, Module):
            return call.enters_child
        return member is not None and not call.enters_child and self._same.functions(member, call.callee)


def _is_lone(module: Module) -> bool:
    """Whether ``@func(topologies=...)`` in a class says all of a child: a function of its name, and levels."""
    if len(module.functions) != 1 or module.topologies is None:
        return False
    function = module.functions[0]
    alone = not (module.modules or module.methods or module.metadata or module.target)
    plain = isinstance(function, Function) and not (
        function.topologies or function.target or function.converters or function.variants
    )
    return alone and plain and function.name == module.name == module.entry and function.topologies is None


def _members(members: list[list[str]]) -> list[str]:
    """Members of a class body, indented, with a blank line between two; one-line members stay together."""
    out: list[str] = []
    for i, lines in enumerate(members):
        if i and not (len(lines) == 1 and len(members[i - 1]) == 1):
            out.append("")
        out += [INDENT + line if line else "" for line in lines]
    return out or [INDENT + "pass"]
