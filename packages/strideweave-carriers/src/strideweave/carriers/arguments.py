"""Arguments that carrier classes share: counts of slots, flags, element types."""

from __future__ import annotations

from tilefoundry.ir.layout import as_int

from ..dtypes import DType, Float32, as_dtype


def as_flag(value: object, what: str) -> bool:
    """``value`` if it is a bool; TypeError otherwise."""
    if not isinstance(value, bool):
        raise TypeError(f"{what}: expected True or False, got {value!r}")
    return value


def as_count(value: object, what: str) -> int:
    """``value`` as a number of slots.

    Raises:
        TypeError: no integer.
        ValueError: negative.
    """
    count = as_int(value, what)
    if count < 0:
        raise ValueError(f"{what}: {count} is negative")
    return count


def default_dtype(dtype: DType | None) -> DType:
    """``dtype``, or Float32 where none is given."""
    return Float32 if dtype is None else as_dtype(dtype)
