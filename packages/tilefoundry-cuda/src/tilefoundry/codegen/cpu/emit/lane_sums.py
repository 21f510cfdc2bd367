"""Which loops are sums that wait for their additions, and so want several of them side by side."""

from __future__ import annotations

from collections.abc import Iterator

from tilefoundry.ir.core.expr import Expr
from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.tir import SCALAR_OPS, Accumulate, Apply, For, Let
from tilefoundry.ir.types import TensorType

__all__ = ["LANES", "lane_sum"]

LANES = 32
"""Running sums side by side: four vectors of eight floats, as many as an addition takes cycles."""

_SHORTEST = 2 * LANES
_CHEAP = 8
"""Scalar operations per value up to which the additions are what such a loop waits for."""


def lane_sum(loop: For) -> Accumulate | None:
    """The one sum of floats that ``loop`` computes and nothing else; None where it does more, or costlier work."""
    if loop.kind != "vector" or loop.step != 1 or not loop.body:
        return None
    *before, last = loop.body
    if not isinstance(last, Accumulate) or last.kind not in (ReduceKind.SUM, ReduceKind.MEAN):
        return None
    lets = [stmt for stmt in before if isinstance(stmt, Let)]
    if len(lets) != len(before) or not isinstance(last.target.type, TensorType):
        return None
    start, stop = loop.start, loop.stop
    short = isinstance(start, int) and isinstance(stop, int) and stop - start < _SHORTEST
    costs = [cost for stmt in (*lets, last) for cost in _costs(stmt.value)]
    if short or not last.target.type.dtype.is_float or sum(costs) > _CHEAP:
        return None
    return None if any(_looks_up(stmt.value) for stmt in lets) else last


def _costs(value: Expr) -> Iterator[int]:
    if isinstance(value, Apply):
        yield SCALAR_OPS[value.op].cost
        for arg in value.args:
            yield from _costs(arg)


def _looks_up(value: Expr) -> bool:
    """Whether a fault may be recorded on the way."""
    return isinstance(value, Apply) and (value.op == "bounded" or any(map(_looks_up, value.args)))
