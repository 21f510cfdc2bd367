"""The node that a projection records: its backward scatters the gradient into a fresh tiled one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...autograd.mode import is_grad_enabled
from ...autograd.node import Node, Saved
from ...tensor import Tensor
from . import gradients
from .requests import check_conflicts, refuse_within_policy
from .selection import TileSelection

if TYPE_CHECKING:
    from .carrier import TiledEvictable


class GatherNode(Node):
    """The node of a projection of ``tensor``, full over ``carrier``. One is made with every request: it holds no more
    than it must, and says itself what other nodes are given functions for.
    """

    __slots__ = ("_carrier", "_selection", "_token")

    def __init__(self, carrier: TiledEvictable, tensor: Tensor, selection: TileSelection) -> None:
        self.name = "project"
        self._inputs = (tensor,)
        self._carrier: TiledEvictable | None = carrier
        self._selection, self._token = selection, carrier.value_token()

    def validate(self) -> None:
        """See ``Node.validate``."""
        carrier = self._carrier
        if carrier is None:
            raise self.freed_earlier()
        Saved(self._inputs[0], self._token).validate(self.name)
        refuse_within_policy(carrier._core, "backward of project")
        check_conflicts(carrier._core, self._selection.bind(carrier._core.geometry), "backward of project")

    def apply(self, gradient: Tensor) -> Sequence[Tensor | None]:
        """See ``Node.apply``."""
        carrier = self._carrier
        if carrier is None:
            raise self.freed_meanwhile()
        return (gradients.scattered(carrier, self._inputs[0].layout, self._selection, gradient),)

    def free(self) -> None:
        """See ``Node.free``."""
        self._carrier = None


def gather_node(carrier: TiledEvictable, tensor: Tensor, selection: TileSelection) -> GatherNode | None:
    """The node of a projection of ``tensor``; None where no gradient is wanted."""
    if tensor._differentiable and is_grad_enabled():
        return GatherNode(carrier, tensor, selection)
    return None
