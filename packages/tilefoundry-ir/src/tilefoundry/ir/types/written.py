"""Tuples as authors write them: ``(4)`` is a number in Python, ``(4,)`` is a tuple."""

from __future__ import annotations

from typing import Any

__all__ = ["as_entries", "tuple_remedy"]


def as_entries(what: str, given: object) -> tuple[Any, ...]:
    """``given``, a list or a tuple, as a tuple.

    Raises:
        TypeError: anything else; ``what`` begins the message, which shows how one entry is written.
    """
    if isinstance(given, (list, tuple)):
        return tuple(given)
    text = given if isinstance(given, str) or type(given).__str__ is not object.__str__ else repr(given)
    raise TypeError(f"{what}, got {text}{tuple_remedy(given)}")


def tuple_remedy(given: object) -> str:
    """How ``given`` is written as the one entry of a tuple; nothing where it is a collection itself."""
    if given is None or isinstance(given, (bool, set, frozenset, dict, list, tuple)):
        return ""
    shown = repr(given) if isinstance(given, str) else str(given)
    return f"; a tuple of one entry has a comma: ({shown},)"
