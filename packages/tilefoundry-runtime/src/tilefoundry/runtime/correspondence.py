"""Whether a twin and its Module, or two Modules, have the same functions, parameters and children."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from tilefoundry.runtime.kernel import signature_of

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import Module

__all__ = ["names_difference", "structure_difference"]


def names_difference(what: str, have: Collection[str], want: Collection[str]) -> str | None:
    """``"functions: missing a, b; extra c"``, or None where both hold the same names."""
    missing = [name for name in want if name not in have]
    extra = [name for name in have if name not in want]
    parts = [f"missing {', '.join(missing)}"] * bool(missing) + [f"extra {', '.join(extra)}"] * bool(extra)
    return f"{what}: {'; '.join(parts)}" if parts else None


def structure_difference(semantic: Module, other: Module) -> str | None:
    """The first way in which ``other`` differs from ``semantic``, names of the nodes aside; None for none."""
    for what, have, want in (
        ("functions", [f.name for f in other.functions], [f.name for f in semantic.functions]),
        ("children", [m.name for m in other.modules], [m.name for m in semantic.modules]),
        ("methods", list(other.methods), list(semantic.methods)),
    ):
        if difference := names_difference(what, have, want):
            return difference
    if other.entry != semantic.entry:
        return f"its entry is {other.entry!r}, expected {semantic.entry!r}"
    for function in semantic.functions:
        if difference := _params_difference(other, semantic, function.name):
            return difference
    for child in semantic.modules:
        if difference := structure_difference(child, other.child(child.name)):
            return f"in {child.name}, {difference}"
    return None


def _params_difference(other: Module, semantic: Module, name: str) -> str | None:
    have, want = (signature_of(module.lookup(name)).params for module in (other, semantic))
    if have == want:
        return None
    return f"{name} takes ({', '.join(f'{p.name}: {p.type}' for p in have)}), expected " + (
        f"({', '.join(f'{p.name}: {p.type}' for p in want)})"
    )
