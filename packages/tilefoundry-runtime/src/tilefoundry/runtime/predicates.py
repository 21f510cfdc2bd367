"""Comparisons of one output with a reference, each with the bound that its caller states.

All measures are taken in float64, integers exactly. NaN on one side fails every predicate, NaN on both
sides as well unless the predicate is built with ``equal_nan=True``; equal infinities are equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar

from tilefoundry.runtime.report import PredicateResult
from tilefoundry.runtime.values import (
    Pair,
    is_exact_dtype,
    largest_integer_difference,
    norm,
    pair_of,
    ulp_distance,
    widened,
)

__all__ = [
    "PREDICATES",
    "AllClose",
    "Cosine",
    "Equal",
    "MaxAbs",
    "MaxRel",
    "NanInf",
    "Predicate",
    "RelL2",
    "Ulp",
]


class Predicate:
    """One comparison and its bound. Immutable.

    Attributes:
        name: how it is named in ``PREDICATES`` and in reports.
        bounds: the fields that hold its bound.
        needs_reference: False where it judges the candidate alone.
        discrete: True where it has meaning on integers and bool.
    """

    __slots__ = ()

    name: ClassVar[str]
    bounds: ClassVar[tuple[str, ...]] = ()
    needs_reference: ClassVar[bool] = True
    discrete: ClassVar[bool] = False

    def measure(self, candidate: Any, reference: Any | None) -> PredicateResult:
        """Judge ``candidate``, a tensor, against ``reference``, one of the same shape and dtype."""
        if candidate.numel() == 0:
            return PredicateResult(self, {}, True, "no elements")
        pair = pair_of(candidate, reference)
        broken = pair.broken(getattr(self, "equal_nan", False))
        if broken:
            return PredicateResult(self, {}, False, f"nothing was measured: {broken}")
        values, passed, note = self._judge(pair, candidate, reference)
        notes = [text for text in (note, pair.settled()) if text]
        return PredicateResult(self, values, passed, "; ".join(notes) or None)

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        raise NotImplementedError(f"{type(self).__name__} defines no measure")

    def _check_bound(self, name: str, low: float, high: float) -> None:
        value = getattr(self, name)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not low <= value <= high:
            kind = f"at least {low:g}" if math.isinf(high) else f"in [{low:g}, {high:g}]"
            raise ValueError(f"{type(self).__name__}: {name} must be a finite number {kind}, got {value!r}")


@dataclass(frozen=True, slots=True)
class AllClose(Predicate):
    """|c - r| <= atol + rtol |r| at every element."""

    name: ClassVar[str] = "allclose"
    bounds: ClassVar[tuple[str, ...]] = ("atol", "rtol")
    atol: float
    rtol: float
    equal_nan: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_bound("atol", 0, math.inf)
        self._check_bound("rtol", 0, math.inf)

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        excess = pair.difference - (self.atol + self.rtol * pair.reference.abs())
        failing = int((excess > 0).sum())
        return {"max_abs": float(pair.difference.max()), "failing": failing}, failing == 0, None


@dataclass(frozen=True, slots=True)
class RelL2(Predicate):
    """||c - r|| / ||r|| <= max; against a zero reference, ||c - r|| <= max."""

    name: ClassVar[str] = "rel_l2"
    bounds: ClassVar[tuple[str, ...]] = ("max",)
    max: float
    equal_nan: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_bound("max", 0, math.inf)

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        error, size = norm(pair.difference), norm(pair.reference)
        if size == 0:
            return (
                {"l2": error},
                error <= self.max,
                "the reference is zero: the norm of the difference was measured",
            )
        return {"rel_l2": error / size}, error / size <= self.max, None


@dataclass(frozen=True, slots=True)
class Cosine(Predicate):
    """c . r / (||c|| ||r||) >= min; zero has no direction, so two zeros pass and one alone fails."""

    name: ClassVar[str] = "cosine"
    bounds: ClassVar[tuple[str, ...]] = ("min",)
    min: float
    equal_nan: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_bound("min", -1, 1)

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        sizes = norm(pair.candidate), norm(pair.reference)
        if 0 in sizes:
            who = "both sides are" if sizes[0] == sizes[1] else "one side is"
            note = f"{who} zero, which has no direction: the norm of the difference was measured"
            error = norm(pair.difference)
            return {"l2": error}, error == 0, note
        unit = [side / float(side.abs().max()) for side in (pair.candidate, pair.reference)]
        # Rounding must not put a vector at an angle to itself.
        same = bool((pair.candidate == pair.reference).all())
        cosine = 1.0 if same else float(unit[0].dot(unit[1])) / (norm(unit[0]) * norm(unit[1]))
        return {"cosine": cosine}, cosine >= self.min, None


@dataclass(frozen=True, slots=True)
class Equal(Predicate):
    """c == r at every element; reports the largest difference and how many elements differ."""

    name: ClassVar[str] = "equal"
    discrete: ClassVar[bool] = True
    equal_nan: bool = field(default=False, kw_only=True)

    def measure(self, candidate: Any, reference: Any | None) -> PredicateResult:
        """Judge integers exactly, floats as the other predicates do."""
        if candidate.numel() and is_exact_dtype(candidate):
            largest, count, _ = largest_integer_difference(candidate, reference)
            return PredicateResult(self, {"max_abs": largest, "differing": count}, count == 0, None)
        return Predicate.measure(self, candidate, reference)

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        count = int((pair.candidate != pair.reference).sum())
        return {"max_abs": float(pair.difference.max()), "differing": count}, count == 0, None


@dataclass(frozen=True, slots=True)
class Ulp(Predicate):
    """At most ``max`` representable values of the output's own type lie between c and r."""

    name: ClassVar[str] = "ulp"
    bounds: ClassVar[tuple[str, ...]] = ("max",)
    max: int
    equal_nan: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_bound("max", 0, math.inf)
        if self.max != int(self.max):
            raise ValueError(f"Ulp: max counts representable values, got {self.max!r}; give an integer")

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        distance = ulp_distance(candidate, reference, widened(candidate).isfinite())
        return {"ulp": distance}, distance <= self.max, None


@dataclass(frozen=True, slots=True)
class MaxAbs(Predicate):
    """|c - r| <= max at every element."""

    name: ClassVar[str] = "max_abs"
    bounds: ClassVar[tuple[str, ...]] = ("max",)
    max: float
    equal_nan: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_bound("max", 0, math.inf)

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        largest = float(pair.difference.max())
        return {"max_abs": largest}, largest <= self.max, None


@dataclass(frozen=True, slots=True)
class MaxRel(Predicate):
    """|c - r| / |r| <= max at every element; where r is zero, |c| <= max."""

    name: ClassVar[str] = "max_rel"
    bounds: ClassVar[tuple[str, ...]] = ("max",)
    max: float
    equal_nan: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        self._check_bound("max", 0, math.inf)

    def _judge(self, pair: Pair, candidate: Any, reference: Any) -> tuple[dict[str, float], bool, str | None]:
        size, difference = pair.reference.abs(), pair.difference
        off_zero = (size == 0) & (difference > 0)
        relative = (difference / size.where(size > 0, size.new_ones(()))).where(size > 0, size.new_zeros(()))
        values = {"max_rel": float(relative.max())}
        if not bool(off_zero.any()):
            return values, values["max_rel"] <= self.max, None
        values["max_abs_at_zero"] = float(difference[off_zero].max())
        note = f"the reference is zero at {int(off_zero.sum())} differing elements: |c| was measured there"
        return values, max(values.values()) <= self.max, note


@dataclass(frozen=True, slots=True)
class NanInf(Predicate):
    """The candidate holds neither NaN nor infinity; needs no reference."""

    name: ClassVar[str] = "nan_inf"
    needs_reference: ClassVar[bool] = False

    def measure(self, candidate: Any, reference: Any | None = None) -> PredicateResult:
        """Judge the candidate alone."""
        if candidate.numel() == 0:
            return PredicateResult(self, {}, True, "no elements")
        wide = widened(candidate)
        counts = {"nan": int(wide.isnan().sum()), "inf": int(wide.isinf().sum())}
        return PredicateResult(self, counts, not any(counts.values()), None)


PREDICATES: Mapping[str, type[Predicate]] = MappingProxyType(
    {p.name: p for p in (AllClose, RelL2, Cosine, Equal, Ulp, MaxAbs, MaxRel, NanInf)}
)
