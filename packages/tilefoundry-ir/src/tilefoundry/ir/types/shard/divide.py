"""Exact division of dims."""

from __future__ import annotations

from tilefoundry.ir.types.dim import Dim, DimExpr, DimVar, Monomial, floordiv, product

__all__ = ["exact_quotient"]


def exact_quotient(dim: Dim, divisor: Dim) -> Dim | None:
    """``dim / divisor`` where that is exact for every value of the variables, else None.

    Takes ints, and dynamic divisors where one is a factor of every term of ``dim``.
    """
    if dim == divisor:
        return 1
    if isinstance(divisor, int):
        quotient = floordiv(dim, divisor)
        return quotient if quotient * divisor == dim else None
    terms = (((divisor,), 1),) if isinstance(divisor, DimVar) else divisor.terms
    if len(terms) != 1 or isinstance(dim, int):
        return None
    ((monomial, coefficient),) = terms
    total: Dim = 0
    for factors, c in (((dim,), 1),) if isinstance(dim, DimVar) else dim.terms:
        rest = _without(factors, monomial)
        if rest is None or c % coefficient:
            return None
        total = total + product([c // coefficient, *rest])
    return total


def _without(factors: Monomial, taken: Monomial) -> list[Dim] | None:
    left = list(factors)
    for atom in taken:
        if atom not in left:
            return None
        left.remove(atom)
    return [atom if isinstance(atom, DimVar) else DimExpr((((atom,), 1),)) for atom in left]
