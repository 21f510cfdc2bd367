"""Names of a printed program: imports, DimVars and constants that its text needs at the top."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilefoundry.ir.types import DimVar
from tilefoundry.ir.types.shard import PERSISTENT

__all__ = ["Header"]

_DSL = "tilefoundry.dsl"


class Header:
    """Collects what the body of a script refers to, and renders it as the script's first lines.

    A name that the program itself uses (a function, value, child or method) is never given to an import or
    a DimVar: these take the next free spelling with a trailing underscore. One thread at a time.

    Args:
        taken: every name that the program's own text binds.

    Attributes:
        lone_children: children of the module at hand that are written as a function with levels of its own.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = set(taken)
        self._imports: dict[tuple[str, str], str] = {}
        self._dims: dict[DimVar, str] = {}
        self._assigned: dict[str, str] = {}
        self._required: set[str] = set()
        self._indices: dict[str, str] = {}
        self._scopes: list[tuple[str, Any]] = []
        self.lone_children: set[str] = set()

    def name(self, symbol: str, module: str = _DSL) -> str:
        """How the script spells ``module.symbol``; imports it."""
        key = (module, symbol)
        if key not in self._imports:
            self._imports[key] = self._free(symbol)
        return self._imports[key]

    def dim(self, var: DimVar) -> str:
        """How the script spells ``var``; declares it at the top, save where a loop binds it."""
        if var.name in self._indices:
            return self._indices[var.name]
        if var == PERSISTENT:
            return self.name("persistent")
        if var not in self._dims:
            self._dims[var] = self._free(var.name)
            self.name("DimVar")
        return self._dims[var]

    def constant(self, name: str, text: str) -> str:
        """How the script spells a value that it assigns once at the top, such as ``inf = float("inf")``."""
        if text not in self._assigned:
            self._assigned[text] = self._free(name)
        return self._assigned[text]

    def require(self, line: str) -> None:
        """A whole line that the text of a method needs at the top, such as ``import torch``."""
        self._required.add(line)

    def push_index(self, name: str, text: str) -> None:
        """Enter a loop whose index is called ``name``: a dim of that name is spelled ``text``."""
        self._indices[name] = text

    def pop_index(self, name: str) -> None:
        """Leave the loop."""
        self._indices.pop(name, None)

    def push_scope(self, name: str, mesh: Any) -> None:
        """Enter ``with mesh as name``."""
        self._scopes.append((name, mesh))

    def pop_scope(self) -> None:
        """Leave the innermost mesh scope."""
        self._scopes.pop()

    def scope_of(self, mesh: Any) -> str | None:
        """The name of the innermost open scope of an equal mesh that no scope inside it hides."""
        hidden: set[str] = set()
        for name, opened in reversed(self._scopes):
            if name not in hidden and opened == mesh:
                return name
            hidden.add(name)
        return None

    def fresh(self, wanted: str) -> str:
        """A name that nothing in the program has, as close to ``wanted`` as possible."""
        return self._free(wanted)

    def lines(self) -> list[str]:
        """Imports, then constants, then DimVars; each group sorted, so that use order does not show."""
        assigned = sorted(f"{name} = {text}" for text, name in self._assigned.items())
        maker = self._imports.get((_DSL, "DimVar"), "DimVar")
        dims = sorted(
            f'{name} = {maker}("{var.name}", {var.lo}, {var.hi})' for var, name in self._dims.items()
        )
        imports = sorted(line for line in self._required if "import" in line.split())
        given = sorted(self._required - set(imports))
        values = [*assigned, *given, *dims]
        return [*imports, *_import_lines(self._imports), *([""] if values else []), *values]

    def _free(self, wanted: str) -> str:
        name = wanted
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        return name


def _import_lines(imports: dict[tuple[str, str], str]) -> list[str]:
    modules = sorted({module for module, _ in imports})
    return [_import_line(module, imports) for module in modules]


def _import_line(module: str, imports: dict[tuple[str, str], str]) -> str:
    names = sorted((symbol, local) for (m, symbol), local in imports.items() if m == module)
    listed = ", ".join(symbol if symbol == local else f"{symbol} as {local}" for symbol, local in names)
    return f"from {module} import {listed}"
