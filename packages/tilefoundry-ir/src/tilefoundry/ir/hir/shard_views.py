"""Layouts of distributed values under transposition and reshaping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.ir.hir.shard_rules import derived, factors_of, fresh_layout
from tilefoundry.ir.types import Dim, TensorType
from tilefoundry.ir.types.shard import ShardAttr, ShardLayout, Split

__all__ = ["reshaped_layout", "transposed_layout"]


def reshaped_layout(op: str, x: TensorType, shape: tuple[Dim, ...]) -> Any | None:
    """The layout of ``x`` under another shape.

    Canonical axes count the elements in row-major order whatever the tensor's rank, so a distributed value
    keeps its layout.
    """
    return x.layout if isinstance(x.layout, ShardLayout) else fresh_layout(op, shape, (("x", x),))


def transposed_layout(op: str, x: TensorType, perm: Sequence[int]) -> Any | None:
    """The layout of ``x`` with its axes permuted: each axis takes its canonical axes along."""
    layout = x.layout
    if not isinstance(layout, ShardLayout):
        return fresh_layout(op, tuple(x.shape[axis] for axis in perm), (("x", x),))
    factors = factors_of(op, "x", x)
    order = [k for axis in perm for k in factors[axis]]
    attrs: list[ShardAttr] = [
        Split(order.index(attr.axis)) if isinstance(attr, Split) else attr for attr in layout.attrs
    ]
    return derived(layout, [layout.shape[k] for k in order], attrs)
