"""The derivative of a slice: zeros with the gradient in the window that was sliced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.layout import IntTuple, Layout, product

from ..dtypes import Scalar
from ..tensor import Tensor
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result

if TYPE_CHECKING:
    import torch


def _infer(operands: Sequence[Operand], attributes: Attributes) -> Result:
    return Result(attributes["extents"], operands[0].dtype())


def _torch(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    window: Layout = attributes["window"]
    flat = views[0].new_zeros(product(result.extents))
    modes = window.flat_modes()[::-1]
    flat.as_strided([s for s, _ in modes], [d for _, d in modes], attributes["offset"]).copy_(views[0])
    return flat


def _python(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    out: list[Scalar] = [0.0] * product(result.extents)
    for i, value in enumerate(operands[0].items):
        out[attributes["offset"] + attributes["window"](i)] = value
    return out


PLACE = Operation("slice_gradient", _infer, _torch, _python)


def slice_gradient(gradient: Tensor, extents: IntTuple, offset: int, window: Layout) -> Tensor:
    """A dense tensor of shape ``extents``, zero but for ``gradient`` at ``offset + window``."""
    return apply(PLACE, (gradient,), {"extents": extents, "offset": offset, "window": window})
