"""softmax over one mode, carried in 32 bits and rounded once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtypes import Scalar
from ..tensor import Tensor
from . import rules
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result, define

if TYPE_CHECKING:
    import torch


def infer(operands: Sequence[Operand], _: Attributes) -> Result:
    """The operand's shape and type."""
    tensor = operands[0]
    return Result(tensor.shape.extents, rules.float_only("softmax", tensor))


def torch_softmax(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    """Over the middle of (after, mode, before)."""
    import torch

    return torch.softmax(views[0].reshape(attributes["around"][::-1]).float(), 1)


def torch_slope(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    """y * (g - sum(g * y))"""
    y, g = (v.reshape(attributes["around"][::-1]).float() for v in views)
    return y * (g - (g * y).sum(1, keepdim=True))


def lines(around: tuple[int, int, int]) -> list[list[int]]:
    """Positions of each line along the mode, in the order of coordinates."""
    before, count, after = around
    return [[b + before * (i + count * a) for i in range(count)] for a in range(after) for b in range(before)]


def py_softmax(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    """Shifted by the maximum, as usual."""
    items = operands[0].items
    out: list[Scalar] = [0.0] * len(items)
    for line in lines(attributes["around"]):
        top = max(items[i] for i in line)
        weights = [math.exp(items[i] - top) if top > -math.inf else math.nan for i in line]
        total = math.fsum(weights)
        for i, weight in zip(line, weights, strict=True):
            out[i] = weight / total
    return out


def py_slope(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    """As the torch kernel."""
    y, g = (o.items for o in operands)
    out: list[Scalar] = [0.0] * len(y)
    for line in lines(attributes["around"]):
        mean = math.fsum(g[i] * y[i] for i in line)
        for i in line:
            out[i] = y[i] * (g[i] - mean)
    return out


SLOPE = Operation("softmax_slope", infer, torch_slope, py_slope)


def vjp(operands: Sequence[Operand], attributes: Attributes, result: Tensor, gradient: Tensor):
    """y * (g - sum(g * y))"""
    return (apply(SLOPE, (result, gradient), attributes),)


SOFTMAX = define(Operation("softmax", infer, torch_softmax, py_softmax, vjp, ("result",)))


def softmax(x: Tensor, mode: int = -1) -> Tensor:
    """exp(x) over its sum along ``mode``; a line of all -inf gives NaN."""
    if not isinstance(x, Tensor):
        return apply(SOFTMAX, (x,), {})
    return apply(SOFTMAX, (x,), {"around": rules.around(x, rules.mode_axis("softmax", x, mode))})
