"""Which variant a call runs: known from its types, or where an extent of the entry is cut to know it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tilefoundry.ir.errors import LoweringError
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.passes.solving import linear_in
from tilefoundry.ir.types import Dim, DimVar, bounds, dim_vars
from tilefoundry.ir.types.dim import substitute

__all__ = ["Ranges", "Uncovered", "Undecided", "chosen_variant"]

Ranges = Mapping[str, tuple[int, int]]
"""Extent's name -> the half-open range that it lies in, where it is known to be narrower than declared."""


@dataclass(frozen=True, slots=True)
class Undecided(Exception):
    """The variant follows where the extent ``name`` is cut at every one of ``cuts``."""

    name: str
    cuts: tuple[int, ...]


class Uncovered(LoweringError):
    """No variant is there for the extents of a call."""


def chosen_variant(callee: Function, given: Mapping[str, Dim], path: str, ranges: Ranges) -> Function:
    """The body that a call runs.

    Args:
        callee: of the call.
        given: the callee's extents at the call.
        path: of the callee, for messages.
        ranges: what is known of the entry's extents.

    Raises:
        Undecided: a narrower range of one extent would tell.
        Uncovered: no variant is for these extents.
        LoweringError: the callee has no body, or its extent follows from several of the entry's, or from a loop's.
    """
    if not callee.variants:
        if callee.body is None:
            raise LoweringError(
                f"{path} has no body; give it one, or add variants with @{callee.name}.specialize"
            )
        return callee
    name = callee.variants[0].pattern.name
    # An extent that is called alike on both sides is none of the substitutions.
    value = given.get(name) or next(var for var in callee.dim_vars() if var.name == name)
    low, high = bounds(substitute(value, {n: DimVar(n, *r) for n, r in ranges.items()}))
    cuts: list[int] = []
    for variant in callee.variants:
        pattern = variant.pattern
        if pattern.lo <= low and high < pattern.hi:
            return variant.function
        cuts += [edge for edge in (pattern.lo, pattern.hi) if low < edge <= high]
    if not cuts:
        raise Uncovered(f"{path}: no variant covers {name} = {value}; add one with @{callee.name}.specialize")
    raise _where_to_cut(value, cuts, path, name, ranges)


def _where_to_cut(value: Dim, edges: list[int], path: str, name: str, ranges: Ranges) -> Undecided:
    found = dim_vars(value)
    cuttable = len(found) == 1 and found[0].name in ranges
    linear = linear_in(value, found[0]) if cuttable else None
    if linear is None:
        raise LoweringError(
            f"{path}: which variant runs depends on {name} = {value}, which is not one extent of the entry times an "
            f"integer plus another; call it as the entry, or give the call such a {name}"
        )
    factor, rest = linear
    return Undecided(found[0].name, tuple(sorted({_first(factor, edge - rest) for edge in edges})))


def _first(factor: int, edge: int) -> int:
    """Where ``factor * n`` passes ``edge``: the first n on the far side, whichever way it grows."""
    return -(-edge // factor) if factor > 0 else edge // factor + 1
