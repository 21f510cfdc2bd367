"""Sharing out a copy that nobody in particular is said to do: the threads of a block take pieces of rows in turn."""

from __future__ import annotations

from tilefoundry.codegen.cuda.authored.space import Space
from tilefoundry.codegen.cuda.authored.writer import KernelWriter
from tilefoundry.ir.types import Dim
from tilefoundry.ir.types.dim import floordiv

__all__ = ["spread"]

_PIECE = 8


def spread(to: KernelWriter, shape: tuple[Dim, ...]) -> Space | None:
    """A space over a static ``shape`` in which every thread of the block takes an equal part; None where the
    threads do not divide it.

    Neighbouring threads take neighbouring pieces of the last axis, and rows beyond.
    """
    threads = to.hazards.threads
    if threads == 1 or not shape or not all(isinstance(n, int) for n in shape):
        return None
    *outer, last = (int(n) for n in shape)  # type: ignore[arg-type]  # checked above
    piece = next(n for n in (_PIECE, 4, 2, 1) if last % n == 0)
    along = _largest(threads, last // piece)
    rows = threads // along
    if rows != 1 and (not outer or outer[-1] % rows):
        return None
    extents: list[Dim] = [*outer[:-1]]
    places: list[Dim | None] = [None] * len(extents)
    if outer:
        extents += [outer[-1] // rows, rows]
        places += [None, floordiv(to.lane, along)]
    extents += [last // piece // along, along, piece]
    places += [None, to.lane - floordiv(to.lane, along) * along, None]
    return Space(tuple(extents), tuple(places))


def _largest(threads: int, pieces: int) -> int:
    """The largest divisor of ``threads`` that divides ``pieces``."""
    return next(n for n in range(min(threads, pieces), 0, -1) if threads % n == 0 and pieces % n == 0)
