"""Find a variable's value from the value of an extent that mentions it."""

from __future__ import annotations

from tilefoundry.ir.types import Dim, DimExpr, DimVar
from tilefoundry.ir.types.dim import floordiv

__all__ = ["is_solvable", "linear_in", "solve"]


def linear_in(dim: Dim, var: DimVar) -> tuple[int, int] | None:
    """``(factor, rest)`` with ``dim == factor * var + rest``, both integers; None where it is no such sum."""
    if dim == var:
        return 1, 0
    if not isinstance(dim, DimExpr):
        return None
    terms = dict(dim.terms)
    rest = terms.pop((), 0)
    return (terms[(var,)], rest) if set(terms) == {(var,)} else None


def is_solvable(dim: Dim, var: DimVar) -> bool:
    """True where the value of ``dim`` alone tells the value of ``var``."""
    return linear_in(dim, var) is not None


def solve(dim: Dim, var: DimVar, value: Dim) -> Dim | None:
    """What ``var`` is where ``dim`` is ``value``; None where that is no whole multiple in every case."""
    found = linear_in(dim, var)
    if found is None:
        return None
    factor, rest = found
    left = value - rest
    if factor < 0:
        factor, left = -factor, -left
    quotient = floordiv(left, factor)
    return quotient if quotient * factor == left else None
