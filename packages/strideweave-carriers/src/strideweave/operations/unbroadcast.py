"""The sum that undoes a broadcast, and the grouping of leaves that all sums share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tilefoundry.ir.layout import IntTuple, flatten

from ..dtypes import Float32, Scalar
from ..tensor import Tensor
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result, Values


def torch_dims(attributes: Attributes, view: Any) -> list[int]:
    """Dimensions of a reversed view that hold the leaves ``attributes["leaves"]``."""
    return [view.ndim - 1 - k for k in attributes["leaves"]]


def groups(values: Values, leaves: Sequence[int]) -> list[list[Scalar]]:
    """Values that fall together, per coordinate of the result, in the order of coordinates."""
    strides, step = [], 1
    for extent in values.leaves:
        strides.append(step)
        step *= extent
    kept = [k for k in range(len(values.leaves)) if k not in leaves]
    return [
        [values.items[base + offset] for offset in _offsets(values.leaves, strides, sorted(leaves))]
        for base in _offsets(values.leaves, strides, kept)
    ]


def _offsets(extents: Sequence[int], strides: Sequence[int], which: Sequence[int]) -> list[int]:
    out = [0]
    for k in which:
        out = [o + i * strides[k] for i in range(extents[k]) for o in out]
    return out


def finite_sum(add: Callable, group: list[Scalar]) -> Scalar:
    """``add(group)``, with the infinities and NaN of IEEE sums."""
    # fsum refuses infinities of both signs and intermediate overflow, where IEEE gives NaN or infinity.
    try:
        return add(group)
    except (OverflowError, ValueError):
        return sum(group)


def _infer_sum_to(operands: Sequence[Operand], attributes: Attributes) -> Result:
    return Result(attributes["extents"], operands[0].dtype())


SUM_TO = Operation(
    "sum_to",
    _infer_sum_to,
    lambda views, attributes, result: views[0].sum(
        torch_dims(attributes, views[0]),
        keepdim=True,
        dtype=Float32.torch(),
    ),
    lambda o, attributes, result: [finite_sum(math.fsum, g) for g in groups(o[0], attributes["leaves"])],
)


def sum_to(gradient: Tensor, extents: IntTuple) -> Tensor:
    """``gradient`` summed over the leaves that a broadcast from ``extents`` repeated."""
    pairs = zip(flatten(extents), gradient.shape.leaves(), strict=True)
    leaves = tuple(k for k, (mine, theirs) in enumerate(pairs) if mine != theirs)
    return apply(SUM_TO, (gradient,), {"extents": extents, "leaves": leaves}) if leaves else gradient
