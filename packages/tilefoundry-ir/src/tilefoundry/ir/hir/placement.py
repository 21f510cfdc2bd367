"""Where results live: storage and layout of a result from those of its operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.shard_axes import carried_layout
from tilefoundry.ir.hir.shard_rules import elementwise_layout, fresh_layout
from tilefoundry.ir.types import Dim, DType, StorageKind, TensorType

__all__ = [
    "Operands",
    "anchor_storage",
    "carried_type",
    "elementwise_type",
    "fresh_type",
    "kept_axes",
    "viewed_type",
]

Operands = Sequence[tuple[str, TensorType]]


def anchor_storage(op: str, operands: Operands) -> StorageKind:
    """The one decided storage among the operands; undecided operands do not count.

    Raises TypeRuleError where two decided ones differ.
    """
    decided = {t.storage: name for name, t in operands if t.storage is not StorageKind.UNDECIDED}
    if len(decided) > 1:
        listed = ", ".join(f"{name} in {storage}" for storage, name in decided.items())
        raise TypeRuleError(
            f"tf.{op}: operands must live in one storage, got {listed}; use tf.reshard on one of them"
        )
    return next(iter(decided), StorageKind.UNDECIDED)


def elementwise_type(op: str, shape: tuple[Dim, ...], dtype: DType, operands: Operands) -> TensorType:
    """The result of an op that computes each element from the operands' elements at the same place.

    Operands of the result's shape must agree in their layout, which the result takes.
    """
    return TensorType(shape, dtype, elementwise_layout(op, shape, operands), anchor_storage(op, operands))


def fresh_type(op: str, shape: tuple[Dim, ...], dtype: DType, operands: Operands) -> TensorType:
    """The result of an op whose elements may come from anywhere in its operands, which must be whole."""
    return TensorType(shape, dtype, fresh_layout(op, shape, operands), anchor_storage(op, operands))


def carried_type(
    op: str, shape: tuple[Dim, ...], dtype: DType, operands: Operands, sources: Sequence[int | None]
) -> TensorType:
    """The result of an op along some axes: its axis ``r`` is axis ``sources[r]`` of every operand, or new."""
    layout = carried_layout(op, shape, operands, sources)
    return TensorType(shape, dtype, layout, anchor_storage(op, operands))


def kept_axes(rank: int, *changed: int) -> list[int | None]:
    """Sources of a result of equal rank in which the ``changed`` axes are made anew."""
    return [None if axis in changed else axis for axis in range(rank)]


def viewed_type(op: str, x: TensorType, shape: tuple[Dim, ...], layout: Any | None) -> TensorType:
    """The result of an op on ``x`` alone, under a ``layout`` that was derived from that of ``x``."""
    return TensorType(shape, x.dtype, layout, anchor_storage(op, (("x", x),)))
