"""Activations: relu, sigmoid, silu, tanh, gelu, softplus. Computed in the wide type, rounded once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.hir.arithmetic import compute, require_arithmetic
from tilefoundry.ir.hir.attributes import choice
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import require_dtype, require_tensor
from tilefoundry.ir.types import Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]

_FORMULA = {
    "relu": "max(x, 0); NaN stays NaN",
    "sigmoid": "1 / (1 + exp(-x))",
    "silu": "x * sigmoid(x)",
    "tanh": "tanh(x)",
    "softplus": "log(1 + exp(x)), without overflow",
    "gelu": "x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x ** 3))); "
    'approximate="none": x / 2 * (1 + erf(x / sqrt(2)))',
}


def _type_activation(name: str) -> Callable[[tuple[Type, ...], Mapping[str, Any]], Type]:
    def type_activation(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
        x = require_tensor(name, "x", types[0])
        require_arithmetic(name, "x", x)
        if name == "relu":
            require_dtype(name, "x", x, not x.dtype.is_bool, "a number")
        else:
            require_dtype(name, "x", x, x.dtype.is_float, "a float")
        return elementwise_type(name, x.shape, x.dtype, (("x", x),))

    return type_activation


def _apply(name: str, x: Any, attrs: Mapping[str, Any]) -> Any:
    import torch
    from torch.nn import functional

    if name == "gelu":
        return functional.gelu(x, approximate=attrs["approximate"])
    if name == "softplus":
        return torch.logaddexp(x, torch.zeros((), dtype=x.dtype, device=x.device))
    return getattr(functional if name == "silu" else torch, name)(x)


def _evaluate_activation(name: str) -> Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]:
    def evaluate_activation(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        return compute(lambda x: _apply(name, x, attrs), ctx.result_type.dtype, values[0])

    return evaluate_activation


_ATTRS = {"gelu": (Attr("approximate", "tanh", choice("none", "tanh")),)}

OPS = tuple(
    Op(name, ("x",), _type_activation(name), _evaluate_activation(name), _ATTRS.get(name, ()), doc=doc)
    for name, doc in _FORMULA.items()
)
