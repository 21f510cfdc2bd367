"""Elementwise ops of one operand: signs, roots, exponentials, rounding, trigonometry, clamp.

f16, bf16 and the 8-bit floats with arithmetic are computed in f32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.ir.core.kinds import UnaryKind
from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.arithmetic import compute, require_arithmetic
from tilefoundry.ir.hir.attributes import number
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import require_dtype, require_tensor
from tilefoundry.ir.types import TensorType, Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]

_ANY_NUMBER = {"neg", "abs", "square"}
_FORMULA = {
    "neg": "-x; integers wrap",
    "abs": "|x|; the most negative integer stays itself",
    "logical_not": "not x, bool only",
    "rsqrt": "1 / sqrt(x)",
    "sqrt": "sqrt(x); NaN below zero",
    "exp": "e ** x",
    "exp2": "2 ** x",
    "log": "natural logarithm of x",
    "log2": "logarithm of x to base 2",
    "square": "x * x; integers wrap",
    "ceil": "the least integer not below x, as a float",
    "floor": "the greatest integer not above x, as a float",
    "round": "the nearest integer as a float, ties to even",
    "sin": "sin(x), radians",
    "cos": "cos(x), radians",
    "erf": "2 / sqrt(pi) * integral of exp(-t * t) for t from 0 to x",
}


def _require_operand(name: str, x: TensorType) -> None:
    if name == "logical_not":
        require_dtype(name, "x", x, x.dtype.is_bool, "bool")
        return
    require_arithmetic(name, "x", x)
    if name in _ANY_NUMBER:
        require_dtype(name, "x", x, not x.dtype.is_bool, "a number")
    else:
        require_dtype(name, "x", x, x.dtype.is_float, "a float")


def _type_unary(name: str) -> Callable[[tuple[Type, ...], Mapping[str, Any]], Type]:
    def type_unary(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
        x = require_tensor(name, "x", types[0])
        _require_operand(name, x)
        return elementwise_type(name, x.shape, x.dtype, (("x", x),))

    return type_unary


def _evaluate_unary(name: str) -> Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]:
    def evaluate_unary(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        import torch

        return compute(getattr(torch, name), ctx.result_type.dtype, values[0])

    return evaluate_unary


def _type_clamp(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("clamp", "x", types[0])
    require_arithmetic("clamp", "x", x)
    require_dtype("clamp", "x", x, not x.dtype.is_bool, "a number")
    low, high = attrs["min_val"], attrs["max_val"]
    if low is None and high is None:
        raise TypeRuleError("tf.clamp needs min_val or max_val")
    for name, bound in (("min_val", low), ("max_val", high)):
        if x.dtype.is_integer and isinstance(bound, float):
            raise TypeRuleError(f"tf.clamp: {name}={bound} is a float, x is {x}; give an integer")
    if low is not None and high is not None and low > high:
        raise TypeRuleError(f"tf.clamp: min_val={low} lies above max_val={high}")
    return elementwise_type("clamp", x.shape, x.dtype, (("x", x),))


def _evaluate_clamp(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    low, high = attrs["min_val"], attrs["max_val"]
    return compute(lambda x: _clamped(x, low, high), ctx.result_type.dtype, values[0])


def _clamped(x: Any, low: Any, high: Any) -> Any:
    import torch

    if not x.dtype.is_floating_point:
        # torch.clamp would refuse a bound outside the type, where it simply does not bind.
        info = torch.iinfo(x.dtype)
        low = None if low is None or low < info.min else low
        high = None if high is None or high > info.max else high
        if (low is not None and low > info.max) or (high is not None and high < info.min):
            return torch.full_like(x, info.max if high is None or high > info.max else info.min)
    return x if low is None and high is None else torch.clamp(x, low, high)


OPS = (
    *(
        Op(kind.value, ("x",), _type_unary(kind.value), _evaluate_unary(kind.value), doc=_FORMULA[kind.value])
        for kind in UnaryKind
    ),
    Op(
        "clamp",
        ("x",),
        _type_clamp,
        _evaluate_clamp,
        (Attr("min_val", None, number), Attr("max_val", None, number)),
        doc="min(max(x, min_val), max_val); a bound that is None does not bind, NaN stays NaN",
    ),
)
