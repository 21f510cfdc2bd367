"""The node that a projection records: its backward scatters the gradient into a fresh tiled one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...autograd.mode import is_grad_enabled
from ...autograd.node import Node
from ...tensor import Tensor
from . import gradients
from .requests import check_conflicts, refuse_within_policy
from .selection import TileSelection

if TYPE_CHECKING:
    from .carrier import TiledEvictable


def gather_node(carrier: TiledEvictable, tensor: Tensor, selection: TileSelection) -> Node | None:
    """The node of a projection of ``tensor``; None where no gradient is wanted."""
    if not (tensor.is_differentiable() and is_grad_enabled()):
        return None
    layout = tensor.layout

    def vjp(gradient: Tensor) -> tuple[Tensor, ...]:
        return (gradients.scattered(carrier, layout, selection, gradient),)

    def prepare() -> None:
        refuse_within_policy(carrier._core, "backward of project")
        check_conflicts(carrier._core, selection.bind(carrier._core.geometry), "backward of project")

    return Node("project", (tensor,), vjp, (tensor,), prepare)
