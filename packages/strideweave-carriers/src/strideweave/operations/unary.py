"""Pointwise functions of one tensor: one row each with formula, kernels and derivative."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..dtypes import Scalar
from ..tensor import Tensor
from . import rules
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result, define

if TYPE_CHECKING:
    import torch

SQRT_HALF = math.sqrt(0.5)
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)


@dataclass(frozen=True, slots=True)
class Row:
    """A function f and its derivative as a function of x and y = f(x), for torch and for Python numbers."""

    torch: Callable[[Any, torch.Tensor], torch.Tensor]
    python: Callable[[float], float]
    torch_slope: Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]
    python_slope: Callable[[float, float], float]
    integers: bool = False


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else math.exp(x) / (1 + math.exp(x))


def _exp(x: float) -> float:
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf if x == 0 else math.nan


def _sqrt(x: float) -> float:
    return math.sqrt(x) if x >= 0 else math.nan


def _rsqrt(x: float) -> float:
    return _inverse(math.sqrt(x)) if x >= 0 else math.nan


def _inverse(x: float) -> float:
    return 1 / x if x != 0 else math.copysign(math.inf, x)


def _phi(x: float) -> float:
    return 0.5 * (1 + math.erf(x * SQRT_HALF))


def _density(x: float) -> float:
    return INV_SQRT_2PI * math.exp(-0.5 * x * x)


ROWS: dict[str, Row] = {
    "relu": Row(
        lambda t, x: t.relu(x),
        lambda x: x if x > 0 or x != x else type(x)(0),
        lambda t, x, y: (x > 0).to(x.dtype),
        lambda x, y: float(x > 0),
        integers=True,
    ),
    "neg": Row(
        lambda t, x: -x, lambda x: -x, lambda t, x, y: t.full_like(x, -1), lambda x, y: -1.0, integers=True
    ),
    "exp": Row(lambda t, x: t.exp(x), _exp, lambda t, x, y: y, lambda x, y: y),
    "log": Row(lambda t, x: t.log(x), _log, lambda t, x, y: 1 / x, lambda x, y: _inverse(x)),
    "sqrt": Row(lambda t, x: t.sqrt(x), _sqrt, lambda t, x, y: 0.5 / y, lambda x, y: 0.5 * _inverse(y)),
    "rsqrt": Row(
        lambda t, x: t.rsqrt(x), _rsqrt, lambda t, x, y: -0.5 * y / x, lambda x, y: -0.5 * y * _inverse(x)
    ),
    "sigmoid": Row(
        lambda t, x: t.sigmoid(x), _sigmoid, lambda t, x, y: y * (1 - y), lambda x, y: y * (1 - y)
    ),
    "tanh": Row(lambda t, x: t.tanh(x), math.tanh, lambda t, x, y: 1 - y * y, lambda x, y: 1 - y * y),
    "silu": Row(
        lambda t, x: t.nn.functional.silu(x),
        lambda x: x * _sigmoid(x),
        lambda t, x, y: t.sigmoid(x) * (1 + x * (1 - t.sigmoid(x))),
        lambda x, y: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))),
    ),
    "gelu": Row(
        lambda t, x: t.nn.functional.gelu(x),
        lambda x: x * _phi(x),
        lambda t, x, y: 0.5 * (1 + t.erf(x * SQRT_HALF)) + x * INV_SQRT_2PI * t.exp(-0.5 * x * x),
        lambda x, y: _phi(x) + x * _density(x),
    ),
}


def _infer(name: str, integers: bool) -> Callable:
    def infer(operands: Sequence[Operand], _: Attributes) -> Result:
        (tensor,) = operands
        if integers:
            dtype = rules.promoted(name, operands)
        else:
            dtype = rules.float_only(name, tensor)
        return Result(tensor.shape.extents, dtype)

    return infer


def _torch(row: Row) -> Callable:
    def kernel(views: Sequence[Any], _: Attributes, result: Result) -> torch.Tensor:
        import torch

        return row.torch(torch, views[0])

    return kernel


def _python(row: Row) -> Callable:
    return lambda operands, _, result: [row.python(v) for v in operands[0].items]


def _slope_operation(name: str, row: Row) -> Operation:
    """g * f'(x), carried in 32 bits and rounded once."""

    def on_torch(views: Sequence[Any], _: Attributes, result: Result) -> torch.Tensor:
        import torch

        x, y, g = (v.to(torch.float32) for v in views)
        return g * row.torch_slope(torch, x, y)

    def on_python(operands: Sequence[Any], _: Attributes, result: Result) -> list[Scalar]:
        columns = zip(*(o.items for o in operands), strict=True)
        return [g * row.python_slope(x, y) for x, y, g in columns]

    return Operation(
        f"{name}_slope", lambda o, _: Result(o[0].shape.extents, o[0].dtype()), on_torch, on_python
    )


def _vjp(slope: Operation) -> Callable:
    def vjp(operands: Sequence[Operand], _: Attributes, result: Tensor, gradient: Tensor):
        return (apply(slope, (operands[0], result, gradient), {}),)

    return vjp


def _define(name: str, row: Row) -> Operation:
    return define(
        Operation(
            name,
            _infer(name, row.integers),
            _torch(row),
            _python(row),
            _vjp(_slope_operation(name, row)),
            (0, "result"),
        )
    )


_OPERATIONS = {name: _define(name, row) for name, row in ROWS.items()}


def relu(x: Tensor) -> Tensor:
    """max(x, 0); NaN stays. Derivative 0 at x <= 0. Keeps integers."""
    return apply(_OPERATIONS["relu"], (x,), {})


def neg(x: Tensor) -> Tensor:
    """``-x``, element by element."""
    return apply(_OPERATIONS["neg"], (x,), {})


def exp(x: Tensor) -> Tensor:
    """``e ** x``, element by element."""
    return apply(_OPERATIONS["exp"], (x,), {})


def log(x: Tensor) -> Tensor:
    """Natural logarithm; -inf at 0, NaN below."""
    return apply(_OPERATIONS["log"], (x,), {})


def sqrt(x: Tensor) -> Tensor:
    """Square root; NaN below 0."""
    return apply(_OPERATIONS["sqrt"], (x,), {})


def rsqrt(x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return apply(_OPERATIONS["rsqrt"], (x,), {})


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e ** -x)."""
    return apply(_OPERATIONS["sigmoid"], (x,), {})


def tanh(x: Tensor) -> Tensor:
    """Hyperbolic tangent."""
    return apply(_OPERATIONS["tanh"], (x,), {})


def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x)."""
    return apply(_OPERATIONS["silu"], (x,), {})


def gelu(x: Tensor) -> Tensor:
    """x * Phi(x), Phi the normal distribution function (the exact form)."""
    return apply(_OPERATIONS["gelu"], (x,), {})
