"""Tensor extents: integers, named variables with a range, and normalised expressions of them.

A ``DimExpr`` is a polynomial with integer coefficients over atoms (``DimVar`` and ``FloorDiv``), kept in
one normal form, so that equal expressions compare equal: ``(N + N) // 2 == N``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Union

__all__ = [
    "Dim",
    "DimExpr",
    "DimVar",
    "FloorDiv",
    "bounds",
    "ceildiv",
    "dim_vars",
    "evaluate_dim",
    "floordiv",
    "lanes",
    "product",
    "proven_equal",
    "substitute",
]


class _Arithmetic:
    """Operators shared by variables and expressions; every result is normalised."""

    __slots__ = ()

    def __add__(self, other: Dim) -> Dim:
        return _build(_add(_terms(self), _terms(other)))

    __radd__ = __add__

    def __sub__(self, other: Dim) -> Dim:
        return _build(_add(_terms(self), _scale(_terms(other), -1)))

    def __rsub__(self, other: Dim) -> Dim:
        return _build(_add(_terms(other), _scale(_terms(self), -1)))

    def __neg__(self) -> Dim:
        return _build(_scale(_terms(self), -1))

    def __mul__(self, other: Dim) -> Dim:
        return _build(_multiply(_terms(self), _terms(other)))

    __rmul__ = __mul__

    def __floordiv__(self, other: int) -> Dim:
        return floordiv(self, other)  # type: ignore[arg-type]  # the mixin is only used by Dim classes

    def __mod__(self, other: int) -> Dim:
        return self - floordiv(self, other) * other  # type: ignore[arg-type, operator]  # as above


@dataclass(frozen=True, slots=True)
class DimVar(_Arithmetic):
    """A named extent with ``lo <= value < hi``.

    ``cut`` marks the extent of a tile that the edge of its axis may cut: ``hi - 1`` lanes hold such a tile, and
    lanes outside take no part in anything.

    Within one program a name has one range. Raises ValueError for an empty or negative range and
    TypeError for bounds that are no integers.
    """

    name: str
    lo: int = 1
    hi: int = 2**31
    cut: bool = field(default=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"a DimVar's name must be an identifier, got {self.name!r}")
        for bound in (self.lo, self.hi):
            if isinstance(bound, bool) or not isinstance(bound, int):
                raise TypeError(f"DimVar {self.name}: bounds are integers, got {bound!r}")
        if not 0 <= self.lo < self.hi:
            raise ValueError(
                f"DimVar {self.name}: the range [{self.lo}, {self.hi}) is empty or negative; "
                "give lo >= 0 and hi > lo"
            )

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class FloorDiv:
    """``numerator // divisor`` with a positive divisor, where it does not simplify."""

    numerator: Dim
    divisor: int

    def __str__(self) -> str:
        return f"({self.numerator}) // {self.divisor}"


Atom = Union[DimVar, FloorDiv]
Monomial = tuple[Atom, ...]
Terms = dict[Monomial, int]


@dataclass(frozen=True, slots=True)
class DimExpr(_Arithmetic):
    """A normalised polynomial: ``terms`` are (monomial, coefficient) in a canonical order.

    Build one with arithmetic on ``DimVar``; the constructor does not normalise.
    """

    terms: tuple[tuple[Monomial, int], ...]

    def __str__(self) -> str:
        text = ""
        for monomial, coefficient in self.terms:
            text += _term_text(monomial, coefficient, first=not text)
        return text


Dim = Union[int, DimVar, DimExpr]


def _term_text(monomial: Monomial, coefficient: int, *, first: bool) -> str:
    factors = [str(atom) if isinstance(atom, DimVar) else f"({atom})" for atom in monomial]
    size = abs(coefficient)
    body = " * ".join(factors if size == 1 and factors else [*factors, str(size)])
    if first:
        return (
            body if coefficient > 0 else f"-{body}" if len(factors) + (size != 1) <= 1 else f"{-1} * {body}"
        )
    return f" + {body}" if coefficient > 0 else f" - {body}"


def _atom_key(atom: Atom) -> tuple[object, ...]:
    return (0, atom.name) if isinstance(atom, DimVar) else (1, str(atom))


def _monomial_key(monomial: Monomial) -> tuple[object, ...]:
    return (-len(monomial), tuple(_atom_key(atom) for atom in monomial))


def _terms(value: object) -> Terms:
    if isinstance(value, bool):
        raise TypeError(f"a dim is an int, a DimVar or an expression of them, got {value!r}")
    if isinstance(value, int):
        return {(): value} if value else {}
    if isinstance(value, DimVar):
        return {(value,): 1}
    if isinstance(value, DimExpr):
        return dict(value.terms)
    raise TypeError(f"a dim is an int, a DimVar or an expression of them, got {value!r}")


def _add(left: Terms, right: Terms) -> Terms:
    total = dict(left)
    for monomial, coefficient in right.items():
        total[monomial] = total.get(monomial, 0) + coefficient
    return total


def _scale(terms: Terms, factor: int) -> Terms:
    return {monomial: coefficient * factor for monomial, coefficient in terms.items()}


def _multiply(left: Terms, right: Terms) -> Terms:
    out: Terms = {}
    for ml, cl in left.items():
        for mr, cr in right.items():
            monomial = tuple(sorted(ml + mr, key=_atom_key))
            out[monomial] = out.get(monomial, 0) + cl * cr
    return out


def _build(terms: Terms) -> Dim:
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1:
        monomial, coefficient = kept[0]
        if monomial == ():
            return coefficient
        if coefficient == 1 and len(monomial) == 1 and isinstance(monomial[0], DimVar):
            return monomial[0]
    return DimExpr(tuple(sorted(kept, key=lambda item: _monomial_key(item[0]))))


def floordiv(dim: Dim, divisor: int) -> Dim:
    """``dim // divisor``, rounding down; terms whose coefficient the divisor divides come out.

    Raises ValueError for a divisor below 1, TypeError for one that is no integer.
    """
    if isinstance(divisor, bool) or not isinstance(divisor, int):
        raise TypeError(f"dims divide by integers only, got {divisor!r}")
    if divisor < 1:
        raise ValueError(f"dims divide by positive integers only, got {divisor}")
    terms = _terms(dim)
    whole = {m: c // divisor for m, c in terms.items() if c % divisor == 0}
    rest = {m: c for m, c in terms.items() if c % divisor}
    remainder = _build(rest)
    if isinstance(remainder, int):
        return _build(_add(whole, _terms(remainder // divisor)))
    constant = rest.pop((), 0)
    numerator = _build(_add(rest, {(): constant % divisor}))
    whole = _add(whole, {(): constant // divisor})
    return _build(_add(whole, {(FloorDiv(numerator, divisor),): 1}))


def ceildiv(dim: Dim, divisor: int) -> Dim:
    """``dim / divisor`` rounded up; both plain integers and dims are taken."""
    return floordiv(_build(_add(_terms(dim), {(): divisor - 1})), divisor)


def product(dims: Iterable[Dim]) -> Dim:
    """The product of ``dims``; 1 for none."""
    total: Terms = {(): 1}
    for dim in dims:
        total = _multiply(total, _terms(dim))
    return _build(total)


def _atoms(dim: Dim) -> Iterable[Atom]:
    for monomial in _terms(dim):
        yield from monomial


def dim_vars(dim: Dim) -> tuple[DimVar, ...]:
    """Every variable that ``dim`` mentions, each once, in order of first appearance."""
    found: dict[DimVar, None] = {}
    for atom in _atoms(dim):
        inner = (atom,) if isinstance(atom, DimVar) else dim_vars(atom.numerator)
        found.update(dict.fromkeys(inner))
    return tuple(found)


def substitute(dim: Dim, env: Mapping[str, Dim]) -> Dim:
    """``dim`` with every variable named in ``env`` replaced; the others stay."""
    total: Dim = 0
    for monomial, coefficient in _terms(dim).items():
        value: Dim = coefficient
        for atom in monomial:
            if isinstance(atom, DimVar):
                value = value * env.get(atom.name, atom)
            else:
                value = value * floordiv(substitute(atom.numerator, env), atom.divisor)
        total = total + value
    return total


def lanes(dim: Dim) -> Dim:
    """``dim`` with every tile whole: the extent that instances hold of an axis whose last tile may be cut."""
    return substitute(dim, {var.name: var.hi - 1 for var in dim_vars(dim) if var.cut})


def evaluate_dim(dim: Dim, env: Mapping[str, int]) -> int:
    """The integer that ``dim`` has under ``env``.

    Raises KeyError naming the variables that ``env`` leaves unbound.
    """
    value = dim if isinstance(dim, int) else substitute(dim, env)
    if not isinstance(value, int):
        missing = ", ".join(var.name for var in dim_vars(value))
        raise KeyError(f"the extent {dim} needs a value for {missing}")
    return value


def bounds(dim: Dim) -> tuple[int, int]:
    """Smallest and largest value (both included) that interval arithmetic gives for ``dim``."""
    low = high = 0
    for monomial, coefficient in _terms(dim).items():
        lo = hi = coefficient
        for atom in monomial:
            a, b = (atom.lo, atom.hi - 1) if isinstance(atom, DimVar) else _quotient_bounds(atom)
            corners = (lo * a, lo * b, hi * a, hi * b)
            lo, hi = min(corners), max(corners)
        low, high = low + lo, high + hi
    return low, high


def proven_equal(left: Dim, right: Dim) -> bool:
    """True where one normal form, or interval arithmetic on the difference, proves both equal for every value."""
    return left == right or bounds(left - right) == (0, 0)


def _quotient_bounds(atom: FloorDiv) -> tuple[int, int]:
    low, high = bounds(atom.numerator)
    return low // atom.divisor, high // atom.divisor
