"""Converters of attributes: each takes what an author wrote and gives one canonical value, or raises."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, TypeVar

from tilefoundry.ir.core.kinds import kind_from_name
from tilefoundry.ir.types import Dim, DimExpr, DimVar, DType

__all__ = [
    "axes",
    "boolean",
    "choice",
    "dim",
    "dims",
    "dtype",
    "integer",
    "kind",
    "number",
    "optional",
    "pair",
    "positive",
    "real",
    "sequence",
]

K = TypeVar("K", bound=Enum)


def integer(value: Any) -> int:
    """An int, from anything with ``__index__`` but bool."""
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise TypeError(f"an integer is needed, got {value!r}")
    return value.__index__()


def positive(value: Any) -> int:
    """An int of 1 or more."""
    number_ = integer(value)
    if number_ < 1:
        raise ValueError(f"an integer of 1 or more is needed, got {number_}")
    return number_


def boolean(value: Any) -> bool:
    """True or False themselves."""
    if not isinstance(value, bool):
        raise TypeError(f"True or False is needed, got {value!r}")
    return value


def real(value: Any) -> float:
    """A float, from an int or a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"a number is needed, got {value!r}")
    return float(value)


def number(value: Any) -> int | float | None:
    """An int or a float as written; None passes."""
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return value
    raise TypeError(f"a number is needed, got {value!r}")


def dim(value: Any) -> Dim:
    """An int, a DimVar or an expression of them."""
    return value if isinstance(value, (DimVar, DimExpr)) else integer(value)


def sequence(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, ...]]:
    """Converter of a tuple or list whose items ``item`` converts; one bare item counts as a tuple of one."""

    def convert_sequence(value: Any) -> tuple[Any, ...]:
        items = value if isinstance(value, (tuple, list)) else (value,)
        return tuple(item(one) for one in items)

    return convert_sequence


axes = sequence(integer)
dims = sequence(dim)


def optional(item: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Converter that lets None pass and hands anything else to ``item``."""

    def convert_optional(value: Any) -> Any:
        return None if value is None else item(value)

    return convert_optional


def pair(item: Callable[[Any], Any]) -> Callable[[Any], tuple[Any, Any]]:
    """Converter of two items; one bare item stands for both."""

    def convert_pair(value: Any) -> tuple[Any, Any]:
        items = value if isinstance(value, (tuple, list)) else (value, value)
        if len(items) != 2:
            raise ValueError(f"two values are needed, got {value!r}")
        return item(items[0]), item(items[1])

    return convert_pair


def choice(*names: str) -> Callable[[Any], str]:
    """Converter that takes one of ``names`` and lists them otherwise."""

    def convert_choice(value: Any) -> str:
        if value not in names:
            raise ValueError(f"there are {', '.join(names)}")
        return value

    return convert_choice


def kind(kinds: type[K]) -> Callable[[Any], K]:
    """Converter to a member of ``kinds``, from its name or itself."""

    def convert_kind(value: Any) -> K:
        return kind_from_name(kinds, value)

    return convert_kind


def dtype(value: Any) -> DType:
    """A DType, from its name or itself."""
    return DType.from_name(value)
