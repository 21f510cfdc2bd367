"""Names that resemble one that was not found."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from itertools import islice

__all__ = ["near_names"]

_COMPARED = 4096
"""Names looked at: comparing takes long where a checkpoint has very many."""


def near_names(wanted: str, known: Iterable[str]) -> list[str]:
    """At most three of ``known`` that ``wanted`` may be a misspelling of, the nearest first; case counts for little."""
    found = list(islice(known, _COMPARED))
    otherwise = [name for name in found if name.lower() == wanted.lower()]
    near = get_close_matches(wanted, [name for name in found if name not in otherwise], n=3, cutoff=0.5)
    return [*otherwise, *near][:3]
