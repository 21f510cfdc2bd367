"""Range checks of integer results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtypes import DType

if TYPE_CHECKING:
    import torch


def can_wrap(dtype: DType) -> bool:
    """Whether sums of so many values of ``dtype`` as memory holds may leave 64 bits."""
    return dtype.itemsize == 8


def unwrapped(name: str, wrapped: torch.Tensor, near: torch.Tensor | None, dtype: DType) -> torch.Tensor:
    """``wrapped``, sums modulo 2**64 (int64), in an integer type; ``near`` are the same sums in float64.

    Without ``near`` they are known to fit 64 bits.

    Raises:
        OverflowError: a sum is outside the type's range.
    """
    # A sum that went round is off by 2**64 at least, what float64 rounds away is far less than that.
    if near is not None and bool(
        ((near.abs() >= 2.0**64) | ((near - wrapped.double()).abs() >= 2.0**63)).any()
    ):
        raise OverflowError(f"{name}: a result is outside the range of {dtype}")
    return checked(name, wrapped, dtype)


def checked(name: str, wide: torch.Tensor, dtype: DType) -> torch.Tensor:
    """``wide`` (int64) in an integer type. Reads the extremes, so it synchronises with a device.

    Raises:
        OverflowError: a value is outside the type's range.
    """
    low, high = dtype.range()
    least, most = (int(v) for v in wide.aminmax())
    if least < low or most > high:
        raise OverflowError(
            f"{name}: a result is {least if least < low else most}, outside the range of {dtype}"
        )
    return wide
