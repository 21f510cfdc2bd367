"""Numbers among attributes, told apart as a reader of the program's text tells them apart."""

from __future__ import annotations

from typing import Any

__all__ = ["exact"]


def exact(value: Any) -> Any:
    """``value`` with its numbers, also those in tuples, as type and spelling, to compare and to hash.

    ``0.0``, ``-0.0``, ``0`` and ``False`` differ, and NaN equals NaN; for Python the first four are equal.
    """
    if isinstance(value, (bool, int, float)):
        return type(value), repr(value)
    return tuple(map(exact, value)) if type(value) is tuple else value
