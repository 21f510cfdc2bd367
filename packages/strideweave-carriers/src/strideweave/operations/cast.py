"""cast and copy: the same values in another type, or dense in a carrier of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtypes import Bool, DType, Scalar, as_dtype
from ..tensor import Tensor
from .checked import checked
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result, define

if TYPE_CHECKING:
    import torch


def infer(operands: Sequence[Operand], attributes: Attributes) -> Result:
    """The operand's shape in the wanted type."""
    (tensor,) = operands
    return Result(tensor.shape.extents, attributes["dtype"])


def torch_cast(views: Sequence[Any], _: Attributes, result: Result) -> torch.Tensor:
    """Rounds to nearest even; to integers truncates, checked."""
    import torch

    view = views[0]
    if result.dtype.kind != "int" or view.dtype is result.dtype.torch():
        return view if result.dtype is not Bool else view != 0
    if view.dtype.is_floating_point:
        wide = view.to(torch.float64)
        if not bool((torch.isfinite(wide) & (wide.abs() < 2.0**63)).all()):
            raise OverflowError(f"cast: a value is NaN, infinite or outside the range of {result.dtype}")
        view = wide.trunc()
    return checked("cast", view.to(torch.int64), result.dtype)


def py_cast(operands: Sequence[Any], _: Attributes, result: Result) -> list[Scalar]:
    """As the torch kernel."""
    items = operands[0].items
    if result.dtype is Bool:
        return [v != 0 for v in items]
    if result.dtype.kind != "int":
        return [float(v) for v in items]
    if any(isinstance(v, float) and not math.isfinite(v) for v in items):
        raise OverflowError(f"cast: a value is NaN, infinite or outside the range of {result.dtype}")
    return [int(v) for v in items]


def vjp(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
    """g in the operand's type"""
    return (cast(gradient, operands[0].dtype()),)


CAST = define(Operation("cast", infer, torch_cast, py_cast, vjp))
COPY = define(
    Operation(
        "copy",
        infer,
        lambda views, _, result: views[0],
        lambda operands, _, result: operands[0].items,
        lambda operands, _, result, gradient: (gradient,),
    )
)


def cast(x: Tensor, dtype: DType) -> Tensor:
    """``x`` in another element type, rounded to nearest even; float to integer truncates.

    Raises:
        OverflowError: a value that the integer type cannot hold.
    """
    return apply(CAST, (x,), {"dtype": as_dtype(dtype, "cast")})


def copy(x: Tensor) -> Tensor:
    """The same values, dense, in a fresh carrier of the same class."""
    return apply(COPY, (x,), {"dtype": x.dtype() if isinstance(x, Tensor) else None})
