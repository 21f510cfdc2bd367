"""How evaluators compute: exact operands, one wide type, one rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.conversion import convert, decode, wide_dtype
from tilefoundry.ir.types import DType, TensorType

__all__ = ["compute", "require_arithmetic", "rounded"]


def require_arithmetic(op: str, name: str, type_: TensorType) -> None:
    """TypeRuleError for the types that only store values: ``f8e8m0`` (scales) and ``f4e2m1`` (codes)."""
    if type_.dtype in (DType.f8e8m0, DType.f4e2m1):
        raise TypeRuleError(
            f"tf.{op}: {name} is {type_}, and {type_.dtype} stores values without arithmetic; "
            "use tf.cast to a float first"
        )


def compute(function: Callable[..., Any], dtype: DType, *values: Any) -> Any:
    """``function`` over operands of one ``dtype``; floats go through their wide type and are rounded once."""
    if not dtype.is_float or dtype is wide_dtype(dtype):
        return function(*values)
    return rounded(function(*(decode(value, dtype) for value in values)), dtype)


def rounded(wide: Any, dtype: DType) -> Any:
    """A result that was computed in the wide type of ``dtype``, in ``dtype``."""
    return convert(wide, wide_dtype(dtype), dtype)
