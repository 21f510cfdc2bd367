"""How evaluators compute: exact operands, one wide type, one rounding."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.conversion import convert, decode, wide_dtype
from tilefoundry.ir.types import DType, TensorType

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["compute", "product", "require_arithmetic", "rounded"]


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


def product(lhs: Any, rhs: Any) -> Any:
    """``lhs @ rhs`` of floats in their own precision.

    A process may let products of f32 drop to TF32 or bf16; then they are taken in f64.
    """
    import torch

    if lhs.dtype is torch.float32 and not _products_are_exact():
        return (lhs.double() @ rhs.double()).float()
    return lhs @ rhs


def _products_are_exact() -> bool:
    import torch

    try:
        return torch.get_float32_matmul_precision() == "highest"
    except RuntimeError:
        # Raised where the setting was made per device, which has no one answer.
        return False


def rounded(wide: Any, dtype: DType) -> Any:
    """A result that was computed in the wide type of ``dtype``, in ``dtype``."""
    return convert(wide, wide_dtype(dtype), dtype)
