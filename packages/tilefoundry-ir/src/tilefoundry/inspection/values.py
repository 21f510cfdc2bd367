"""Python text of types, dims and attribute values."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

from tilefoundry.inspection.names import Header
from tilefoundry.ir.core.pattern import DimVarRangePat
from tilefoundry.ir.types import Dim, DimExpr, DimVar, DType, StorageKind, TensorType, TupleType, Type
from tilefoundry.ir.types.dim import FloorDiv

__all__ = ["dim_text", "literal_text", "shape_text", "type_text", "value_text"]


def literal_text(value: int | float | bool, header: Header) -> str:
    """A number as Python reads it back to the same bits; infinities and NaN through a named constant."""
    if not isinstance(value, float) or math.isfinite(value):
        return repr(value)
    if math.isnan(value):
        return header.constant("nan", 'float("nan")')
    inf = header.constant("inf", 'float("inf")')
    return inf if value > 0 else f"-{inf}"


def dim_text(dim: Dim, header: Header) -> str:
    """A dim as an expression of the script's DimVars; reading it back gives the same normal form."""
    if isinstance(dim, DimVar):
        return header.dim(dim)
    if not isinstance(dim, DimExpr):
        return repr(dim)
    if len(dim.terms) == 1 and dim.terms[0][1] == 1 and len(dim.terms[0][0]) == 1:
        return _factor_text(dim.terms[0][0][0], header).removeprefix("(").removesuffix(")")
    text = ""
    for monomial, coefficient in dim.terms:
        text += _term_text(monomial, coefficient, header, first=not text)
    return text


def _term_text(monomial: tuple[Any, ...], coefficient: int, header: Header, *, first: bool) -> str:
    factors = [_factor_text(atom, header) for atom in monomial]
    size = abs(coefficient)
    body = " * ".join([*factors, str(size)] if size != 1 or not factors else factors)
    if first:
        return body if coefficient > 0 else f"-{body}"
    return f" + {body}" if coefficient > 0 else f" - {body}"


def _factor_text(atom: DimVar | FloorDiv, header: Header) -> str:
    if isinstance(atom, DimVar):
        return header.dim(atom)
    return f"(({dim_text(atom.numerator, header)}) // {atom.divisor})"


def shape_text(shape: tuple[Dim, ...], header: Header) -> str:
    """A tuple of dims."""
    return _tuple_text([dim_text(dim, header) for dim in shape])


def type_text(type_: Type, header: Header, constructor: str = "Tensor") -> str:
    """A type as an annotation ``Tensor[shape, dtype, layout, storage]``; the last slots only where needed."""
    if isinstance(type_, TupleType):
        return f"tuple[{', '.join(type_text(t, header) for t in type_.elements)}]"
    slots = [shape_text(type_.shape, header), f'"{type_.dtype.name}"']
    if type_.layout is not None or type_.storage is not StorageKind.UNDECIDED:
        slots.append(value_text(type_.layout, header))
    if type_.storage is not StorageKind.UNDECIDED:
        slots.append(f'"{type_.storage.value}"')
    return f"{header.name(constructor)}[{', '.join(slots)}]"


def value_text(value: Any, header: Header) -> str:
    """An attribute's value as an expression; a mesh whose scope is open goes by the scope's name.

    Raises:
        TypeError: a value of a class that has no text; the message names it.
    """
    for kind, write in _WRITERS:
        if isinstance(value, kind):
            return write(value, header)
    open_scope = header.scope_of(value)
    if open_scope is not None:
        return open_scope
    if hasattr(value, "script_text"):
        return value.script_text(header.name, lambda inner: value_text(inner, header))
    if is_dataclass(value) and not isinstance(value, type):
        return _record_text(value, header)
    raise TypeError(f"a {type(value).__name__} has no text in a program: {value!r}; make it a dataclass")


def _record_text(value: Any, header: Header) -> str:
    kind = type(value)
    parts = [_field_text(value, f, header) for f in fields(value) if _shows(value, f)]
    return f"{header.name(kind.__name__, _door(kind))}({', '.join(parts)})"


def _field_text(value: Any, field: Field[Any], header: Header) -> str:
    text = value_text(getattr(value, field.name), header)
    required = field.default is MISSING and field.default_factory is MISSING and not field.kw_only
    return text if required else f"{field.name}={text}"


def _shows(value: Any, field: Field[Any]) -> bool:
    if field.default is not MISSING:
        default = field.default
    elif field.default_factory is not MISSING:
        default = field.default_factory()
    else:
        return field.init
    return field.init and repr(getattr(value, field.name)) != repr(default)


def _door(kind: type) -> str:
    """The shortest package on the way to ``kind`` that gives it out under its own name."""
    parts = kind.__module__.split(".")
    for end in range(2, len(parts)):
        door = ".".join(parts[:end])
        if getattr(sys.modules.get(door), kind.__name__, None) is kind:
            return door
    return kind.__module__


def _tuple_text(parts: list[str]) -> str:
    return f"({parts[0]},)" if len(parts) == 1 else f"({', '.join(parts)})"


def _string_text(value: str) -> str:
    text = repr(value)
    return text if '"' in text or "\\" in text else f'"{text[1:-1]}"'


def _mapping_text(value: Mapping[Any, Any], header: Header) -> str:
    return (
        "{" + ", ".join(f"{value_text(k, header)}: {value_text(v, header)}" for k, v in value.items()) + "}"
    )


def _pattern_text(value: DimVarRangePat, header: Header) -> str:
    return f'{header.name("DimVarRangePat")}("{value.name}", {value.lo}, {value.hi})'


_WRITERS: tuple[tuple[Any, Callable[[Any, Header], str]], ...] = (
    ((bool, int, float), literal_text),
    (str, lambda value, header: _string_text(value)),
    ((bytes, type(None)), lambda value, header: repr(value)),
    (tuple, lambda value, header: _tuple_text([value_text(v, header) for v in value])),
    (list, lambda value, header: "[" + ", ".join(value_text(v, header) for v in value) + "]"),
    (Mapping, _mapping_text),
    ((DimVar, DimExpr), dim_text),
    (DType, lambda value, header: _string_text(value.name)),
    (Enum, lambda value, header: value_text(value.value, header)),
    ((TensorType, TupleType), type_text),
    (DimVarRangePat, _pattern_text),
)
