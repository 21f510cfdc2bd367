"""Unique names for the values of one function."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable

__all__ = ["NameSupply"]

_SUFFIX = re.compile(r"_\d+$")


class NameSupply:
    """Gives every value of a function a name of its own.

    A wanted name is kept while it is free; otherwise the smallest free ``stem_1``, ``stem_2``, ... serves,
    where the stem is the wanted name without such a suffix. The choice depends only on the names given out
    before, so a printed program, which spells every name, reads back with the same names.
    """

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._used = set(reserved)
        self._next: dict[str, int] = {}

    def take(self, wanted: str) -> str:
        """``wanted``, or the next free spelling of it."""
        if wanted not in self._used and not keyword.iskeyword(wanted):
            self._used.add(wanted)
            return wanted
        return self._numbered(_SUFFIX.sub("", wanted) or "v", "_", 1)

    def temporary(self) -> str:
        """A name for an intermediate that the author did not name: ``t0``, ``t1``, ..."""
        return self._numbered("t", "", 0)

    def _numbered(self, stem: str, joint: str, first: int) -> str:
        # The used set only grows, so a search may start where the last one for this stem ended.
        k = self._next.get(stem + joint, first)
        while f"{stem}{joint}{k}" in self._used:
            k += 1
        self._next[stem + joint] = k
        name = f"{stem}{joint}{k}"
        self._used.add(name)
        return name
