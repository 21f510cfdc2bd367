"""Where results live: storage and layout of a result from those of its operands."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.types import Dim, DType, StorageKind, TensorType

__all__ = ["Operands", "anchor_storage", "elementwise_type", "fresh_type"]

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
    layouts = {t.layout: name for name, t in operands if t.shape == shape and t.layout is not None}
    if len(layouts) > 1:
        listed = ", ".join(f"{name}: {layout}" for layout, name in layouts.items())
        raise TypeRuleError(
            f"tf.{op}: operands are laid out differently ({listed}); use tf.reshard on one of them"
        )
    return TensorType(shape, dtype, next(iter(layouts), None), anchor_storage(op, operands))


def fresh_type(op: str, shape: tuple[Dim, ...], dtype: DType, operands: Operands) -> TensorType:
    """The result of an op that lays its result out anew."""
    return TensorType(shape, dtype, None, anchor_storage(op, operands))
