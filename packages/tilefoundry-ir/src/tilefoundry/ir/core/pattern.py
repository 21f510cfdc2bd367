"""Patterns that select a specialised variant of a function."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["DimVarRangePat", "Pattern"]


@dataclass(frozen=True, slots=True)
class Pattern:
    """Base of all patterns: a predicate over the values of a function's DimVars."""


@dataclass(frozen=True, slots=True)
class DimVarRangePat(Pattern):
    """Matches where the DimVar called ``name`` has ``lo <= value < hi``."""

    name: str
    lo: int
    hi: int

    def __post_init__(self) -> None:
        for bound in (self.lo, self.hi):
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise TypeError(f"the pattern over {self.name} takes integers as its bounds, got {bound!r}")
        if not self.lo < self.hi:
            raise ValueError(f"the pattern over {self.name} is empty: [{self.lo}, {self.hi})")

    def matches(self, value: int) -> bool:
        """True where ``value`` lies in the half-open range."""
        return self.lo <= value < self.hi
