"""Windows of a tensor: where one starts on each axis, and the proof that it lies inside.

A start is a dim, or ``None``, which takes the next start operand: a rank-0 ``i32`` or ``i64`` tensor such as
a loop index. Starts that no interval of the dims proves inside are checked when the program runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.rules import require_index, require_tensor
from tilefoundry.ir.types import Dim, TensorType, Type, bounds

__all__ = ["check_window", "require_starts", "resolve_starts", "split_starts", "starts", "window_slices"]

starts = attributes.sequence(attributes.optional(attributes.dim))


def split_starts(given: Sequence[Any], is_value: Any) -> tuple[tuple[Any, ...], tuple[Dim | None, ...]]:
    """Split per-axis starts into (operands, attribute): ``is_value(start)`` tells values from dims.

    ``(i, 0)`` with a value ``i`` gives ``((i,), (None, 0))``.
    """
    operands = tuple(start for start in given if is_value(start))
    return operands, tuple(None if is_value(start) else start for start in given)


def require_starts(
    op: str, name: str, attr: tuple[Dim | None, ...], operands: Sequence[Type], rank: int
) -> None:
    """TypeRuleError where there is not one start per axis, or the start operands do not fit the Nones."""
    if len(attr) != rank:
        raise TypeRuleError(
            f"tf.{op}: {name} has {len(attr)} entries, the tensor has rank {rank}; give one per axis"
        )
    if attr.count(None) != len(operands):
        raise TypeRuleError(
            f"tf.{op}: {name} leaves {attr.count(None)} axes to start operands, {len(operands)} were given"
        )
    for type_ in operands:
        tensor = require_tensor(op, name, type_)
        require_index(op, f"a start in {name}", tensor)
        if tensor.rank:
            raise TypeRuleError(
                f"tf.{op}: a start in {name} is {tensor}; a scalar is needed, use tf.reshape(..., ())"
            )
    for axis, start in enumerate(attr):
        if start is not None and bounds(start)[1] < 0:
            raise TypeRuleError(
                f"tf.{op}: {name}[{axis}] = {start} is negative; count from the start of the axis"
            )


def check_window(
    op: str, x: TensorType, attr: tuple[Dim | None, ...], sizes: tuple[Dim, ...], strides: tuple[int, ...]
) -> None:
    """TypeRuleError where a window leaves its axis for every value of the dims."""
    for axis, (start, size, stride) in enumerate(zip(attr, sizes, strides, strict=True)):
        reach = _reach(0 if start is None else start, size, stride)
        if bounds(size)[0] > 0 and bounds(x.shape[axis] - reach)[1] < 0:
            where = "?" if start is None else start
            raise TypeRuleError(
                f"tf.{op}: the window of axis {axis} (start {where}, size {size}, stride {stride}) "
                f"leaves the extent {x.shape[axis]} of {x}"
            )


def _reach(start: Dim, size: Dim, stride: int) -> Dim:
    """One past the last element that the window touches; meaningful for a size of 1 or more."""
    return start + (size - 1) * stride + 1


def resolve_starts(ctx: Any, attr: tuple[Dim | None, ...], values: Sequence[Any]) -> tuple[int, ...]:
    """The starts as integers; ``values`` are the tensors of the start operands, in order."""
    given = iter(values)
    return tuple(int(next(given)) if start is None else ctx.dim(start) for start in attr)


def window_slices(
    op: str, shape: Sequence[int], begin: Sequence[int], sizes: Sequence[int], strides: Sequence[int]
) -> tuple[slice, ...]:
    """Python slices of the window.

    Raises EvaluationError naming the axis where the window does not lie inside ``shape``.
    """
    for axis, (extent, start, size, stride) in enumerate(zip(shape, begin, sizes, strides, strict=True)):
        last = start + (size - 1) * stride
        if start < 0 or size < 0 or start > extent or (size > 0 and last >= extent):
            raise EvaluationError(
                f"tf.{op}: the window of axis {axis} (start {start}, size {size}, stride {stride}) "
                f"leaves the extent {extent}"
            )
    return tuple(
        slice(start, start + size * stride, stride)
        for start, size, stride in zip(begin, sizes, strides, strict=True)
    )
