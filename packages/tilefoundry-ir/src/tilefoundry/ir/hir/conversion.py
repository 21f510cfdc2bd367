"""Bit-exact conversion between element types, rounding once, on any device.

Rules that hold for every pair of types:

* float to float and integer to float round once, to nearest with ties to even. Overflow gives infinity where
  the type has one, NaN in ``fp8e4m3`` and ``f8e8m0``, and the largest value in ``f4e2m1``, which has neither.
* ``f8e8m0`` holds powers of two: zero and negative values become NaN, values below 2**-127 become 2**-127.
* NaN stays NaN; ``f4e2m1`` has none and takes code 8, negative zero.
* float to integer drops the fraction, saturates at the ends of the type, and maps NaN to 0.
* integer to integer keeps the low bits; anything to bool is ``x != 0``, and NaN is true.
"""

from __future__ import annotations

from typing import Any

from tilefoundry.ir.hir.torch_dtypes import torch_dtype
from tilefoundry.ir.types import DType

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["convert", "decode", "wide_dtype"]

_WIDE = frozenset({DType.f32, DType.f64})
_E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_E2M1_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def wide_dtype(dtype: DType) -> DType:
    """The float type that computes values of ``dtype``: ``f64`` for itself, ``f32`` for the others."""
    return DType.f64 if dtype is DType.f64 else DType.f32


def decode(value: Any, dtype: DType) -> Any:
    """The elements of ``value`` exactly: floats in their wide type, integers and bools as they are stored."""
    import torch

    if dtype in _WIDE:
        return value
    if dtype is DType.f4e2m1:
        table = torch.tensor(_E2M1_VALUES + tuple(-v for v in _E2M1_VALUES), device=value.device)
        return table[(value & 15).long()]
    return value.to(torch_dtype(wide_dtype(dtype))) if dtype.is_float else value


def convert(value: Any, source: DType, target: DType) -> Any:
    """``value``, whose elements are of type ``source``, in type ``target``; itself where these are one."""
    if source is target:
        return value
    exact = decode(value, source)
    if target.is_bool:
        return exact != 0
    if target.is_float:
        return _to_float(exact, target)
    if source.is_float:
        return _float_to_integer(exact, target)
    return exact.to(torch_dtype(target))


def _to_float(exact: Any, target: DType) -> Any:
    import torch

    if target in _WIDE:
        return exact.to(torch_dtype(target))
    if exact.dtype in (torch.int32, torch.int64):
        exact = _integer_to_odd_double(exact.long())
    if exact.dtype is torch.float64:
        exact = _double_to_odd_single(exact)
    single = exact.to(torch.float32)
    if target is DType.f4e2m1:
        return _encode_e2m1(single)
    if target is DType.f8e8m0:
        # torch drops the sign and rounds up too early below 2**-126.
        return _encode_e8m0(single)
    return single.to(torch_dtype(target))


def _integer_to_odd_double(value: Any) -> Any:
    """int64 as float64, rounded to odd: a later rounding to a shorter type then rounds once in effect."""
    import torch

    high = value >> 12
    inexact = (value & 4095) != 0
    odd = (high | inexact.long()).to(torch.float64) * 4096.0
    return torch.where(value.abs() <= 2**53, value.to(torch.float64), odd)


def _double_to_odd_single(value: Any) -> Any:
    """float64 as float32, rounded to odd, for the same reason."""
    import torch

    nearest = value.to(torch.float32)
    back = nearest.to(torch.float64)
    inexact = (back != value) & ~value.isnan()
    bits = nearest.view(torch.int32)
    toward_zero = bits - (inexact & (back.abs() > value.abs())).int()
    return (toward_zero | inexact.int()).view(torch.float32)


def _encode_e8m0(single: Any) -> Any:
    import torch

    bits = single.view(torch.int32)
    exponent, fraction = (bits >> 23) & 255, bits & 0x7FFFFF
    # Halfway to the next power of two and above goes up; between the two smallest powers everything does, as in
    # ml_dtypes and in torch.
    up = fraction >= torch.where(exponent == 0, 0x400001, 0x400000)
    code = torch.where(single > 0, exponent + up.int(), 255).clamp(max=255)
    code = torch.where(single.isfinite(), code, 255)
    return code.to(torch.uint8).view(torch_dtype(DType.f8e8m0))


def _encode_e2m1(single: Any) -> Any:
    import torch

    midpoints = torch.tensor(_E2M1_MIDPOINTS, device=single.device)
    magnitude = single.abs().nan_to_num(nan=0.0, posinf=8.0)
    code = torch.bucketize(magnitude, midpoints)
    # A tie goes to the even code: bucketize keeps it at the lower one, which is odd every second time.
    tie_up = (code < 7) & (code % 2 == 1) & (magnitude == midpoints[code.clamp(max=6)])
    negative = torch.signbit(single) | single.isnan()
    return (code + tie_up.long() + 8 * negative.long()).to(torch.uint8)


def _float_to_integer(exact: Any, target: DType) -> Any:
    import torch

    whole = exact.to(torch.float64).trunc()
    whole = torch.where(whole.isnan(), 0.0, whole)
    info = torch.iinfo(torch_dtype(target))
    if target is not DType.i64:
        return whole.clamp(info.min, info.max).to(torch_dtype(target))
    # 2**63 - 1 is no double, so the two ends are set by hand.
    above, below = whole >= 2.0**63, whole < -(2.0**63)
    inside = torch.where(above | below, 0.0, whole).to(torch.int64)
    return inside.masked_fill(above, info.max).masked_fill(below, info.min)
