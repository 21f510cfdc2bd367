"""A HIR function as a decorated Python ``def``, with its converters and variants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.inspection.body_text import INDENT, BodyText
from tilefoundry.inspection.names import Header
from tilefoundry.inspection.values import type_text, value_text
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.hir.function import Function

__all__ = ["decorator_lines", "function_lines"]

WIDTH = 100


def function_lines(
    function: Function, header: Header, topologies: tuple[Any, ...] | None = None
) -> list[str]:
    """The lines of ``function``, unindented: the ``def``, then one ``def`` per converter and per variant.

    ``topologies`` are those of its module, where the function stands for it.
    """
    levels = function.topologies if topologies is None else topologies
    head = decorator_lines("func", header, topologies=levels, target=function.target)
    lines = [*head, *_def_lines(function, header)]
    for weight, converter in function.converters.items():
        lines += ["", f'@{function.name}.converter("{weight}")', *_def_lines(converter, header)]
    return [*lines, *_variant_lines(function, header)]


def _variant_lines(function: Function, header: Header) -> list[str]:
    """Variants one by one; those of a variant, which lowering makes where two extents choose, follow it."""
    lines: list[str] = []
    for variant in function.variants:
        pattern = value_text(variant.pattern, header)
        lines += ["", f"@{function.name}.specialize({pattern})", *_def_lines(variant.function, header)]
        lines += _variant_lines(variant.function, header)
    return lines


def decorator_lines(name: str, header: Header, **given: object) -> list[str]:
    """``@name`` or ``@name(key=value, ...)`` with the values that are not None."""
    parts = [f"{key}={value_text(value, header)}" for key, value in given.items() if value is not None]
    head = f"@{header.name(name, 'tilefoundry')}"
    if not parts:
        return [head]
    line = f"{head}({', '.join(parts)})"
    return [line] if len(line) <= WIDTH else [f"{head}(", *(f"{INDENT}{part}," for part in parts), ")"]


def _def_lines(function: Function, header: Header) -> list[str]:
    signature = _signature(
        function.name, function.params, f" -> {type_text(function.result, header)}:", header
    )
    if function.body is None:
        return [*signature, INDENT + "pass"]
    body = BodyText(header).lines(function.params, function.body, function.result)
    return [*signature, *(INDENT + line for line in body)]


def _signature(name: str, params: Sequence[Var], end: str, header: Header) -> list[str]:
    listed = [
        f"{p.name}: {type_text(p.type, header, 'ConstTensor' if p.is_const else 'Tensor')}" for p in params
    ]
    line = f"def {name}({', '.join(listed)}){end}"
    if len(line) <= WIDTH:
        return [line]
    return [f"def {name}(", *(f"{INDENT}{param}," for param in listed), f"){end}"]
