"""Reading coordinates that callers give: any finite iterable of anything with an ``__index__``."""

from __future__ import annotations

from collections.abc import Iterable, Sized
from itertools import islice
from operator import index

FINITE = 2**20
"""How many items of an iterable without a length are read before it counts as endless."""


def as_component(value: object, what: str) -> int:
    """``value`` as a plain int; its sign is judged by the caller, after every type was.

    Raises:
        TypeError: a bool, or nothing with ``__index__``.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool) or (getattr(value, "dtype", None) is not None and "bool" in str(value.dtype)):  # type: ignore[attr-defined] # getattr above
        raise TypeError(f"{what}: {value!r} is a truth value; pass an int")
    try:
        return int(index(value))  # type: ignore[arg-type] # the except below is the check
    except TypeError:
        raise TypeError(f"{what}: expected an integer, got {type(value).__name__} {value!r}") from None


def read_all(values: object, what: str) -> tuple[object, ...]:
    """Every item of a finite iterable, read once.

    Raises:
        TypeError: text, no iterable, or one without a length that goes on past ``FINITE`` items.
    """
    if isinstance(values, (str, bytes, bytearray, memoryview)) or not isinstance(values, Iterable):
        raise TypeError(f"{what}: expected a finite iterable, got {type(values).__name__} {values!r}")
    if getattr(values, "ndim", 1) == 0:
        raise TypeError(
            f"{what}: expected a finite iterable, got {type(values).__name__} {values!r} without axes"
        )
    if isinstance(values, Sized):
        return tuple(values)
    items = tuple(islice(values, FINITE + 1))
    if len(items) > FINITE:
        raise TypeError(f"{what}: gave more than {FINITE} items and has no length; pass a list or tuple")
    return items


def read_components(values: object, what: str) -> tuple[int, ...]:
    """A finite iterable of integers as plain ints; see ``read_all`` and ``as_component``."""
    return tuple(as_component(v, what) for v in read_all(values, what))
