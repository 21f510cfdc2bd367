"""Composition C(i) == A(B(i)), refused where no layout over B's modes is that function.

Method: write each index B(i) in the mixed radix of A's extents. While adding up B's steps never carries
from one digit into the next, A is additive over them, and A of a step is the stride of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt

from .coalesce import coalesced_modes
from .layout import Layout, concatenate, from_flat_modes

Modes = list[tuple[int, int]]


class CompositionError(ValueError):
    """No layout over the inner layout's modes equals the composed function."""


def composition(outer: Layout, inner: Layout | int | Sequence) -> Layout:
    """The layout C with ``C(i) == outer(inner(i))`` for every ``i in range(size(inner))``.

    C's modes follow those of ``inner``; a mode that crosses modes of ``outer`` becomes a tuple. A sequence of
    layouts or ints composes mode by mode, leaving the modes of ``outer`` after the last one as they are.

    Raises:
        CompositionError: ``inner`` leaves the domain of ``outer``, or the function is not affine over its
            modes. Sums of steps that would carry over a mode boundary of ``outer`` are refused.
        ValueError: more entries than ``outer`` has modes.
    """
    if isinstance(inner, (tuple, list)):
        return _by_mode(outer, inner)
    inner = inner if isinstance(inner, Layout) else Layout(inner)
    if inner.cosize() > outer.size():
        raise CompositionError(
            f"composition: {inner} reaches index {inner.cosize() - 1}, {outer} has {outer.size()} "
            "coordinates; pad the outer layout or shrink the inner one"
        )
    composed = _Composer(outer, inner)
    return composed.layout(inner)


def _by_mode(outer: Layout, tilers: Sequence) -> Layout:
    modes = outer.modes()
    if len(tilers) > len(modes):
        raise ValueError(f"composition: {len(tilers)} tilers for {outer}, which has {len(modes)} modes")
    head = [composition(m, t) for m, t in zip(modes, tilers, strict=False)]
    return concatenate(*head, *modes[len(tilers) :])


class _Composer:
    """One composition: the digits of the outer layout and how much of each the steps so far use up."""

    def __init__(self, outer: Layout, inner: Layout) -> None:
        self._outer, self._inner = outer, inner
        self._modes = coalesced_modes(outer)
        self._used = [0] * len(self._modes)

    def layout(self, mode: Layout) -> Layout:
        if isinstance(mode.shape, tuple):
            return concatenate(*map(self.layout, mode.modes()))
        return from_flat_modes(self._leaf(mode.shape, mode.stride)) if mode.shape > 1 else Layout(1, 0)

    def _leaf(self, extent: int, step: int) -> Modes:
        out: Modes = []
        while extent > 1:
            digits = self._digits(step)
            count = _largest_divisor(extent, self._room(digits))
            if count == 1:
                raise self._refusal(extent, step)
            self._use(count, digits, extent, step)
            out.append((count, sum(v * d for v, (_, d) in zip(digits, self._modes, strict=True))))
            extent, step = extent // count, step * count
        return coalesced_modes(Layout(tuple(s for s, _ in out), tuple(d for _, d in out))) or [(1, 0)]

    def _digits(self, index: int) -> list[int]:
        digits = []
        for extent, _ in self._modes:
            index, digit = divmod(index, extent)
            digits.append(digit)
        return digits

    def _room(self, digits: list[int]) -> int | None:
        """How often the step fits before a digit overflows, counting the zeroth; None: for ever."""
        fits = [(s - 1) // v + 1 for v, (s, _) in zip(digits, self._modes, strict=True) if v]
        return min(fits, default=None)

    def _use(self, count: int, digits: list[int], extent: int, step: int) -> None:
        for k, (digit, (limit, _)) in enumerate(zip(digits, self._modes, strict=True)):
            self._used[k] += (count - 1) * digit
            if self._used[k] >= limit:
                raise self._refusal(extent, step)

    def _refusal(self, extent: int, step: int) -> CompositionError:
        return CompositionError(
            f"composition: no layout C has C(i) == A(B(i)) for A = {self._outer}, B = {self._inner}: "
            f"{extent} steps of {step} carry over a mode boundary of A; choose extents and strides of B that "
            "divide the extents of A"
        )


def _largest_divisor(extent: int, limit: int | None) -> int:
    """The largest divisor of ``extent`` that is at most ``limit``."""
    if limit is None or limit >= extent:
        return extent
    best = 1
    for low in range(1, min(isqrt(extent), max(limit, 1)) + 1):
        if extent % low == 0:
            best = max(best, low, extent // low if extent // low <= limit else 1)
    return best
