"""Move elements without looking at them: types that torch cannot index are moved as bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["moved"]


def moved(function: Callable[..., Any], *values: Any) -> Any:
    """``function(*values)``, which only moves elements, for one-byte floats through a view as ``uint8``."""
    import torch

    dtype = values[0].dtype
    if not dtype.is_floating_point or dtype.itemsize > 1:
        return function(*values)
    return function(*(value.view(torch.uint8) for value in values)).view(dtype)
