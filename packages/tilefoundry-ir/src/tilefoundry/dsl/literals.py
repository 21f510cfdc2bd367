"""Python numbers as operands: they take the dtype of the tensors beside them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from numbers import Integral, Real
from typing import Any

from tilefoundry.ir.core.expr import Constant, Expr
from tilefoundry.ir.types import DType, TensorType, scalar

__all__ = ["constant", "is_number", "resolve_operands"]


def is_number(value: Any) -> bool:
    """True for what may stand as a literal operand: bool, int, float and numpy's scalars of them."""
    return isinstance(value, Real)


def resolve_operands(values: Sequence[Any]) -> tuple[Any, ...]:
    """``values`` with every number made a constant of the co-operands' dtype.

    Floats take the one float dtype among the tensors, ints the one integer dtype, bools bool.

    Raises:
        TypeError: a number beside tensors whose dtype it cannot take, or beside several that it could take;
            the message says what to write.
    """
    dtypes = list(
        dict.fromkeys(v.type.dtype for v in values if isinstance(v, Expr) and isinstance(v.type, TensorType))
    )
    return tuple(v if isinstance(v, Expr) else constant(v, _dtype_for(v, dtypes)) for v in values)


def constant(value: Any, dtype: DType) -> Constant:
    """A rank-0 constant of ``dtype``; TypeError or ValueError where the value does not fit."""
    plain = _plain(value)
    if isinstance(plain, bool) or dtype.is_bool:
        if not (isinstance(plain, bool) and dtype.is_bool):
            raise TypeError(f"{plain!r} cannot be a {dtype} constant")
        return Constant(scalar(dtype), plain)
    if dtype.is_float:
        if not isinstance(plain, float):
            raise TypeError(f"the int {plain} cannot be a {dtype} constant; write {float(plain)!r}")
        return Constant(scalar(dtype), float(plain))
    if not isinstance(plain, int):
        raise TypeError(f"the float {plain!r} cannot be a {dtype} constant")
    _check_range(plain, dtype)
    return Constant(scalar(dtype), int(plain))


def _plain(value: Any) -> bool | int | float:
    if isinstance(value, (bool, int, float)):
        return value
    return int(value) if isinstance(value, Integral) else float(value)


def _check_range(value: int, dtype: DType) -> None:
    low, high = (
        (0, 2**dtype.bits - 1)
        if dtype.kind == "uint"
        else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)
    )
    if not low <= value <= high:
        raise ValueError(f"{value} does not fit {dtype} (valid: {low}..{high})")


def _dtype_for(value: Any, dtypes: Sequence[DType]) -> DType:
    value = _plain(value)
    kind, fits = _kind_of(value)
    found = [dtype for dtype in dtypes if fits(dtype)]
    if len(found) == 1:
        return found[0]
    if found:
        names = ", ".join(map(str, found))
        raise TypeError(
            f"{value!r} could take any of the dtypes {names} beside it; cast the tensors to one dtype"
        )
    if not dtypes:
        raise TypeError(
            f"the number {value!r} has no tensor beside it that gives it a dtype; use tf.full_like"
        )
    names = ", ".join(map(str, dtypes))
    raise TypeError(f"the {kind} {value!r} does not mix with {names}; {_remedy(value, dtypes)}")


def _kind_of(value: Any) -> tuple[str, Callable[[DType], bool]]:
    if isinstance(value, bool):
        return "bool", lambda dtype: dtype.is_bool
    if isinstance(value, float):
        return "float", lambda dtype: dtype.is_float
    return "int", lambda dtype: dtype.is_integer


def _remedy(value: Any, dtypes: Sequence[DType]) -> str:
    if isinstance(value, bool):
        return "compare the tensor first, or write a number"
    if isinstance(value, float):
        whole = f"write {int(value)} or " if math.isfinite(value) and value == int(value) else ""
        return f'{whole}cast the tensor with tf.cast(x, "f32")'
    if any(dtype.is_float for dtype in dtypes):
        return f"write {float(value)!r}" if abs(int(value)) < 2**53 else "write a float"
    return "cast the tensor to an integer dtype with tf.cast"
