"""index_select along a mode, and the scatter-add that is its derivative."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dtypes import Scalar
from ..tensor import Tensor
from . import rules
from .dispatch import apply
from .operation import Attributes, Operand, Operation, Result, define

if TYPE_CHECKING:
    import torch


def infer(operands: Sequence[Operand], attributes: Attributes) -> Result:
    """The mode's extent becomes the number of indices."""
    (tensor,) = operands
    extents = rules.replace_mode(tensor, attributes["mode"], len(attributes["indices"]))
    return Result(extents, tensor.dtype())


def torch_select(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    """A gather over the middle of (after, mode, before)."""
    import torch

    view = views[0].reshape(attributes["around"][::-1])
    index = torch.tensor(attributes["indices"], device=view.device)
    return view.index_select(1, index)


def py_select(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    """As the torch kernel."""
    before, count, after = attributes["around"]
    items = operands[0].items
    return [
        items[b + before * (i + count * a)]
        for a in range(after)
        for i in attributes["indices"]
        for b in range(before)
    ]


def infer_add(operands: Sequence[Operand], attributes: Attributes) -> Result:
    """The shape that was selected from."""
    return Result(attributes["extents"], rules.float_only("index_select gradient", operands[0]))


def torch_add(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    """Summed in 32 bits in the order of indices on the host; a device may add in any order."""
    import torch

    before, count, after = attributes["around"]
    gradient = views[0].reshape(after, -1, before)
    out = torch.zeros(after, count, before, dtype=torch.float32, device=gradient.device)
    index = torch.tensor(attributes["indices"], device=gradient.device)
    return out.index_add_(1, index, gradient.float())


def py_add(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    """As the torch kernel."""
    before, count, after = attributes["around"]
    out: list[Scalar] = [0.0] * (before * count * after)
    given = iter(operands[0].items)
    for a in range(after):
        for i in attributes["indices"]:
            for b in range(before):
                out[b + before * (i + count * a)] += next(given)
    return out


ADD = Operation("index_select_gradient", infer_add, torch_add, py_add)


def vjp(operands: Sequence[Operand], attributes: Attributes, result: Tensor, gradient: Tensor):
    """g, added up where it was selected"""
    return (apply(ADD, (gradient,), {**attributes, "extents": operands[0].shape.extents}),)


INDEX_SELECT = define(Operation("index_select", infer, torch_select, py_select, vjp))


def index_select(x: Tensor, indices: Sequence[int] | Tensor, mode: int = 0) -> Tensor:
    """``x`` at ``indices`` along ``mode``, in the order given; repeats are allowed.

    ``indices`` are integers or an integer Tensor (read to the host). A nested mode is indexed linearly.

    Raises:
        TypeError: an index is no integer.
        ValueError: no indices, or one outside the mode.
    """
    if not isinstance(x, Tensor):
        return apply(INDEX_SELECT, (x,), {})
    axis = rules.mode_axis("index_select", x, mode)
    around = rules.around(x, axis)
    checked = _indices(indices, around[1])
    return apply(INDEX_SELECT, (x,), {"mode": axis, "around": around, "indices": checked})


def _indices(indices: Sequence[int] | Tensor, extent: int) -> tuple[int, ...]:
    values = indices.tolist() if isinstance(indices, Tensor) else list(indices)
    if not values:
        raise ValueError("index_select: no indices; an empty mode cannot be laid out")
    for value in values:
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"index_select: index {value!r} is no integer")
        if not 0 <= value < extent:
            raise ValueError(f"index_select: index {value} is outside [0, {extent})")
    return tuple(int(v) for v in values)
