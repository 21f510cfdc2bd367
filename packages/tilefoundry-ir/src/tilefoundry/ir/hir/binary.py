"""Elementwise ops of two broadcasting operands: arithmetic, comparison, logic.

Integers wrap; floats are computed in their wide type and rounded once. floor_div and mod round the exact
quotient down, as Python does; an integer divisor of 0 is an EvaluationError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.ir.core.kinds import BinaryKind
from tilefoundry.ir.core.op import Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir.arithmetic import compute, require_arithmetic
from tilefoundry.ir.hir.conversion import decode
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import broadcast_shapes, require_dtype, require_same_dtype, require_tensor
from tilefoundry.ir.types import DType, TensorType, Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]

_COMPARE = {"cmp_eq", "cmp_ne", "cmp_lt", "cmp_le", "cmp_gt", "cmp_ge"}
_LOGIC = {"logical_and", "logical_or"}
_TORCH = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "div": "true_divide",
    "mod": "remainder",
    "minimum": "minimum",
    "maximum": "maximum",
    "cmp_eq": "eq",
    "cmp_ne": "ne",
    "cmp_lt": "lt",
    "cmp_le": "le",
    "cmp_gt": "gt",
    "cmp_ge": "ge",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
}
_FORMULA = {
    "add": "lhs + rhs",
    "sub": "lhs - rhs",
    "mul": "lhs * rhs",
    "div": "lhs / rhs, floats only",
    "floor_div": "the exact quotient lhs / rhs rounded down",
    "mod": "lhs - floor_div(lhs, rhs) * rhs, with the sign of rhs",
    "minimum": "min(lhs, rhs); NaN wins",
    "maximum": "max(lhs, rhs); NaN wins",
    "cmp_eq": "lhs == rhs as bool",
    "cmp_ne": "lhs != rhs as bool",
    "cmp_lt": "lhs < rhs as bool",
    "cmp_le": "lhs <= rhs as bool",
    "cmp_gt": "lhs > rhs as bool",
    "cmp_ge": "lhs >= rhs as bool",
    "logical_and": "lhs and rhs, bool only",
    "logical_or": "lhs or rhs, bool only",
}


def _type_binary(name: str) -> Callable[[tuple[Type, ...], Mapping[str, Any]], Type]:
    def type_binary(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
        operands = tuple((n, require_tensor(name, n, t)) for n, t in zip(("lhs", "rhs"), types, strict=True))
        dtype = require_same_dtype(name, operands)
        _check_dtype(name, operands[0][1])
        shape = broadcast_shapes(name, *(type_.shape for _, type_ in operands))
        return elementwise_type(name, shape, DType.bool_ if name in _COMPARE else dtype, operands)

    return type_binary


def _check_dtype(name: str, type_: TensorType) -> None:
    dtype = type_.dtype
    require_arithmetic(name, "lhs", type_)
    if name in _LOGIC:
        require_dtype(name, "lhs", type_, dtype.is_bool, "bool")
    elif name == "div":
        if dtype.is_integer:
            raise TypeRuleError(
                f"tf.div: integers {type_} do not divide exactly; use tf.floor_div or cast to a float"
            )
        require_dtype(name, "lhs", type_, dtype.is_float, "a float")
    elif name not in ("cmp_eq", "cmp_ne"):
        require_dtype(name, "lhs", type_, not dtype.is_bool, "a number")


def _evaluate_binary(name: str) -> Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]:
    def evaluate_binary(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        dtype = ctx.operand_types[0].dtype
        if name in _COMPARE:
            return _function(name)(*(decode(value, dtype) for value in values))
        if name in ("floor_div", "mod") and dtype.is_integer:
            return _divide_integers(name, *values)
        return compute(_function(name), dtype, *values)

    return evaluate_binary


def _function(name: str) -> Callable[[Any, Any], Any]:
    import torch

    if name == "floor_div":
        return lambda lhs, rhs: torch.div(lhs, rhs, rounding_mode="floor")
    return getattr(torch, _TORCH[name])


def _divide_integers(name: str, lhs: Any, rhs: Any) -> Any:
    """Floored quotient or remainder; -1 is kept from the hardware, where the most negative number traps."""
    import torch

    if bool((rhs == 0).any()):
        raise EvaluationError(f"tf.{name}: an integer divisor is 0; guard it with tf.where")
    minus_one = rhs == -1 if rhs.dtype.is_signed else torch.zeros_like(rhs, dtype=torch.bool)
    divisor = torch.where(minus_one, 1, rhs)
    if name == "mod":
        return torch.remainder(lhs, divisor)
    quotient = torch.div(lhs, divisor, rounding_mode="floor")
    return torch.where(minus_one, -quotient, quotient)


OPS = tuple(
    Op(
        kind.value,
        ("lhs", "rhs"),
        _type_binary(kind.value),
        _evaluate_binary(kind.value),
        doc=_FORMULA[kind.value],
    )
    for kind in BinaryKind
)
