"""Between DTypes and torch dtypes."""

from __future__ import annotations

from typing import Any

from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.types import DType

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["dtype_of_tensor", "torch_dtype"]

_FROM_TORCH: dict[Any, DType] = {}
_TO_TORCH: dict[DType, Any] = {}


def torch_dtype(dtype: DType) -> Any:
    """The torch dtype that stores ``dtype``; ``f4e2m1`` is stored as one ``uint8`` code per element."""
    found = _TO_TORCH.get(dtype)
    if found is None:
        import torch

        found = torch.uint8 if dtype.torch_name is None else getattr(torch, dtype.torch_name)
        _TO_TORCH[dtype] = found
    return found


def dtype_of_tensor(value: Any) -> DType:
    """The DType of a torch tensor; EvaluationError for a torch dtype that the IR has no name for.

    A ``uint8`` tensor is ``u8``; that it holds ``f4e2m1`` codes is known from its declaration alone.
    """
    if not _FROM_TORCH:
        names = [name for name in DType.names() if name != "f4e2m1"]
        _FROM_TORCH.update({torch_dtype(DType.from_name(name)): DType.from_name(name) for name in names})
    found = _FROM_TORCH.get(value.dtype)
    if found is None:
        raise EvaluationError(f"{value.dtype} has no DType; the dtypes are {', '.join(DType.names())}")
    return found
