"""The extents of an entry's shapes, read off the inputs at hand; numbers and torch's symbols alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilefoundry.ir.types import Dim, DimExpr, DimVar
from tilefoundry.runtime.abi import EntryABI

__all__ = ["Extent", "extent_of", "extent_sources"]

Extent = Callable[[Sequence[Any]], Any]
"""From the inputs to a number."""


def extent_sources(type: EntryABI) -> dict[str, Extent]:
    """DimVar name -> how to read its value off the inputs; a DimVar that no input tells is left out."""
    sources: dict[str, Extent] = {}
    for alone in (True, False):
        for index, param in enumerate(type.input_params):
            for axis, dim in enumerate(param.type.shape):
                if isinstance(dim, DimVar) and alone:
                    sources.setdefault(dim.name, _axis_reader(index, axis))
                elif isinstance(dim, DimExpr) and not alone:
                    _add_solved(sources, dim, index, axis)
    return sources


def _axis_reader(index: int, axis: int) -> Extent:
    return lambda inputs: inputs[index].shape[axis]


def _add_solved(sources: dict[str, Extent], dim: DimExpr, index: int, axis: int) -> None:
    """Where ``dim`` is ``a * N + b``, read N as ``(extent - b) / a``."""
    terms = dict(dim.terms)
    offset = terms.pop((), 0)
    if len(terms) != 1:
        return
    ((monomial, factor),) = terms.items()
    if len(monomial) == 1 and isinstance(monomial[0], DimVar):
        sources.setdefault(monomial[0].name, lambda inputs: (inputs[index].shape[axis] - offset) // factor)


def extent_of(dim: Dim, env: Mapping[str, Any]) -> Any:
    """The value of ``dim``; ``env`` gives each DimVar's. KeyError for one that it leaves out."""
    if isinstance(dim, int):
        return dim
    if isinstance(dim, DimVar):
        return env[dim.name]
    total: Any = 0
    for monomial, factor in dim.terms:
        term: Any = factor
        for atom in monomial:
            term = term * (
                env[atom.name] if isinstance(atom, DimVar) else extent_of(atom.numerator, env) // atom.divisor
            )
        total = total + term
    return total
