"""Elementwise ops of two broadcasting operands: arithmetic, comparison, logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.ir.core.kinds import BinaryKind
from tilefoundry.ir.core.op import Op
from tilefoundry.ir.errors import TypeRuleError
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
    "floor_div": "floor(lhs / rhs)",
    "mod": "lhs - floor(lhs / rhs) * rhs, the sign of rhs",
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
        lhs, rhs = (require_tensor(name, n, t) for n, t in zip(("lhs", "rhs"), types, strict=True))
        dtype = require_same_dtype(name, (("lhs", lhs), ("rhs", rhs)))
        _check_dtype(name, lhs)
        shape = broadcast_shapes(name, lhs.shape, rhs.shape)
        return TensorType(shape, DType.bool_ if name in _COMPARE else dtype)

    return type_binary


def _check_dtype(name: str, type_: TensorType) -> None:
    dtype = type_.dtype
    if name in _LOGIC:
        require_dtype(name, "lhs", type_, dtype.is_bool, "bool")
    elif name == "div":
        if dtype.is_integer:
            raise TypeRuleError(f"tf.div: integers {type_} do not divide exactly; use tf.floor_div or cast to a float")
        require_dtype(name, "lhs", type_, dtype.is_float, "a float")
    elif name not in ("cmp_eq", "cmp_ne"):
        require_dtype(name, "lhs", type_, not dtype.is_bool, "a number")


def _evaluate_binary(name: str) -> Callable[[Any, tuple[Any, ...], Mapping[str, Any]], Any]:
    def evaluate_binary(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
        import torch

        lhs, rhs = values
        if name == "floor_div":
            return torch.div(lhs, rhs, rounding_mode="floor")
        if name == "mod":
            return torch.remainder(lhs, rhs)
        return getattr(torch, _TORCH[name])(lhs, rhs)

    return evaluate_binary


OPS = tuple(
    Op(kind.value, ("lhs", "rhs"), _type_binary(kind.value), _evaluate_binary(kind.value), doc=_FORMULA[kind.value])
    for kind in BinaryKind
)
