"""matmul: both second modes contract, ``out[i, j] = sum_k lhs[i, k] * rhs[j, k]``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.layout import product

from ..dtypes import Scalar
from ..layout import Layout
from ..tensor import Tensor, detached
from . import rules
from .checked import unwrapped
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result, define

if TYPE_CHECKING:
    import torch

INT_CHUNK = 1 << 24
"""Products held at once by the integer kernel."""


def infer(operands: Sequence[Operand], attributes: Attributes) -> Result:
    """(i, k) and (j, k) give (i, j); the second modes have one size."""
    lhs, rhs = operands
    for side, tensor in (("lhs", lhs), ("rhs", rhs)):
        if tensor.shape.rank != 2:
            raise ValueError(f"matmul: {side} has {tensor.shape.rank} modes, expected 2")
    (i, k), (j, other) = lhs.shape.modes(), rhs.shape.modes()
    if product(k) != product(other):
        raise ValueError(
            f"matmul: second modes contract, lhs has {product(k)} there and rhs {product(other)}"
        )
    return Result((i, j), rules.promoted("matmul", operands))


def torch_matmul(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    """One matrix product; integers exactly, in 64 bits."""
    kind = result.dtype.torch()
    lhs, rhs = (v.reshape(k, -1).to(kind) for v, k in zip(views, attributes["contracted"], strict=True))
    # Operands arrive as (k, i) and (k, j), and the result leaves as (j, i).
    return (
        rhs.t() @ lhs
        if result.dtype.is_float
        else unwrapped("matmul", *integer_products(lhs, rhs), result.dtype)
    )


def integer_products(lhs: torch.Tensor, rhs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Products of integer matrices (k, i) and (k, j): (j, i) modulo 2**64, and the same in float64."""
    import torch

    # No device multiplies int64 matrices itself.
    wide_l, wide_r = lhs.to(torch.int64), rhs.to(torch.int64)
    step = max(1, INT_CHUNK // max(1, lhs.numel()))
    rows = [
        (wide_r[:, j : j + step].t().unsqueeze(2) * wide_l.unsqueeze(0)).sum(1)
        for j in range(0, rhs.shape[1], step)
    ]
    return torch.cat(rows), rhs.double().t() @ lhs.double()


def py_matmul(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    """Exact sums of products, rounded once."""
    depth = attributes["contracted"][0]
    lhs, rhs = (o.items for o in operands)
    rows, columns = len(lhs) // depth, len(rhs) // depth
    add = math.fsum if result.dtype.is_float else sum
    return [
        add([lhs[i + rows * k] * rhs[j + columns * k] for k in range(depth)])
        for j in range(columns)
        for i in range(rows)
    ]


def transposed(tensor: Tensor) -> Tensor:
    """The two modes of ``tensor`` exchanged, without a copy."""
    first, second = tensor.layout.modes()
    layout = Layout((second.shape.extents, first.shape.extents), (second.stride, first.stride))
    return detached(Tensor(tensor.carrier, tensor.offset, layout))


def vjp(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
    """(g rhs, g^T lhs)"""
    lhs, rhs = operands
    to_lhs = matmul(gradient, transposed(rhs))
    to_rhs = matmul(transposed(gradient), transposed(lhs))
    return _reshaped(to_lhs, lhs), _reshaped(to_rhs, rhs)


def _reshaped(gradient: Tensor, like: Tensor) -> Tensor:
    return detached(Tensor(gradient.carrier, gradient.offset, Layout(like.shape)))


MATMUL = define(Operation("matmul", infer, torch_matmul, py_matmul, vjp, (0, 1)))


def matmul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """``out[i, j] = sum_k lhs[i, k] * rhs[j, k]``: two modes each, both second modes contract.

    Floats accumulate in 32 bits and round once; integers are exact and checked.
    """
    given = [o.shape.modes()[-1] for o in (lhs, rhs) if isinstance(o, Tensor) and o.shape.rank == 2]
    return apply(MATMUL, (lhs, rhs), {"contracted": tuple(map(product, given))})
