"""Pieces that type rules share: operand checks and broadcasting of static and dynamic extents."""

from __future__ import annotations

from collections.abc import Sequence

from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.types import Dim, DType, TensorType, Type

__all__ = [
    "broadcast_shapes",
    "normalize_axes",
    "normalize_axis",
    "require_dtype",
    "require_index",
    "require_same_dtype",
    "require_tensor",
]


def require_tensor(op: str, name: str, type_: Type) -> TensorType:
    """``type_`` where it is a tensor's; TypeRuleError naming the operand otherwise."""
    if not isinstance(type_, TensorType):
        raise TypeRuleError(
            f"tf.{op}: {name} must be a tensor, got {type_}; take an element of the tuple first"
        )
    return type_


def require_dtype(op: str, name: str, type_: TensorType, ok: bool, expected: str) -> None:
    """TypeRuleError where ``ok`` is false, saying what dtype was expected."""
    if not ok:
        raise TypeRuleError(f"tf.{op}: {name} is {type_}, but {expected} is needed; use tf.cast")


def require_same_dtype(op: str, named: Sequence[tuple[str, TensorType]]) -> DType:
    """The one dtype of all operands; TypeRuleError listing them where they differ."""
    first = named[0][1].dtype
    if any(type_.dtype is not first for _, type_ in named):
        listed = ", ".join(f"{name}: {type_}" for name, type_ in named)
        raise TypeRuleError(
            f"tf.{op}: operands must have one dtype, got {listed}; use tf.cast on one of them"
        )
    return first


def broadcast_shapes(op: str, *shapes: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape that all broadcast to, by numpy's rule.

    Extents are equal where their normal forms are; 1 stretches. Two different dynamic extents are refused,
    since nothing says that they agree at run time.
    """
    rank = max(len(shape) for shape in shapes)
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in shapes]
    return tuple(_broadcast_dim(op, dims, shapes) for dims in zip(*padded, strict=True))


def _broadcast_dim(op: str, dims: tuple[Dim, ...], shapes: tuple[tuple[Dim, ...], ...]) -> Dim:
    kept = dict.fromkeys(dim for dim in dims if dim != 1)
    if len(kept) > 1:
        listed = " and ".join("(" + ", ".join(map(str, shape)) + ")" for shape in shapes)
        names = ", ".join(map(str, kept))
        raise TypeRuleError(
            f"tf.{op}: shapes {listed} do not broadcast: extents {names} differ and none is 1"
        )
    return next(iter(kept), 1)


def normalize_axis(op: str, axis: object, rank: int, name: str = "axis") -> int:
    """``axis`` as a non-negative int; TypeRuleError naming the valid range otherwise."""
    if isinstance(axis, bool) or not hasattr(axis, "__index__"):
        raise TypeRuleError(f"tf.{op}: {name} must be an int, got {axis!r}")
    value = axis.__index__()  # type: ignore[attr-defined]  # checked on the line above
    if not -rank <= value < rank:
        raise TypeRuleError(
            f"tf.{op}: {name} {value} is out of range for rank {rank} (valid: {-rank}..{rank - 1})"
        )
    return value % rank


def normalize_axes(op: str, axes: object, rank: int, name: str = "axes") -> tuple[int, ...]:
    """One or several axes, each normalised, in the given order; duplicates are refused."""
    given = axes if isinstance(axes, (tuple, list)) else (axes,)
    out = tuple(normalize_axis(op, axis, rank, name) for axis in given)
    if len(set(out)) != len(out):
        raise TypeRuleError(f"tf.{op}: {name} {tuple(given)} names one axis twice")
    return out


def require_index(op: str, name: str, type_: TensorType) -> None:
    """TypeRuleError where ``type_`` cannot hold indices; ``i32`` and ``i64`` can."""
    require_dtype(op, name, type_, type_.dtype in (DType.i32, DType.i64), "i32 or i64")
