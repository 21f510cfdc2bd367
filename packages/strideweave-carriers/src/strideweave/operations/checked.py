"""Range checks of integer results."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..dtypes import DType

if TYPE_CHECKING:
    import torch


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
