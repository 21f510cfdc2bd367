"""reduce: sum, mean, max, min, absmax over axes.

Floats are accumulated in the wide type and rounded once; integers in i64, keeping the low bits. NaN wins in
max, min and absmax. An empty axis sums to 0 and has the mean NaN; max, min and absmax refuse it where a
result would depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.kinds import ReduceKind
from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.arithmetic import compute, require_arithmetic, rounded
from tilefoundry.ir.hir.conversion import convert, decode
from tilefoundry.ir.hir.placement import viewed_type
from tilefoundry.ir.hir.rules import normalize_axes, require_dtype, require_tensor
from tilefoundry.ir.hir.shard_contractions import reduced_layout
from tilefoundry.ir.types import DType, TensorType, Type, bounds

__all__ = ["OPS"]

_EXTREMES = (ReduceKind.MAX, ReduceKind.MIN, ReduceKind.ABSMAX)


def _normalize_reduce(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    x = require_tensor("reduce", "x", types[0])
    return {**attrs, "axes": tuple(sorted(normalize_axes("reduce", attrs["axes"], x.rank)))}


def _require_operand(kind: ReduceKind, x: TensorType) -> None:
    require_arithmetic("reduce", "x", x)
    if kind is ReduceKind.MEAN:
        require_dtype("reduce", "x", x, x.dtype.is_float, "a float for a mean")
    elif kind not in (ReduceKind.MAX, ReduceKind.MIN):
        require_dtype("reduce", "x", x, not x.dtype.is_bool, f"a number for {kind.value}")


def _refuse_empty(kind: ReduceKind, x: TensorType, axes: tuple[int, ...]) -> None:
    kept = [bounds(dim)[0] for i, dim in enumerate(x.shape) if i not in axes]
    if kind in _EXTREMES and any(x.shape[axis] == 0 for axis in axes) and all(low > 0 for low in kept):
        raise TypeRuleError(
            f"tf.reduce: {kind.value} over an empty axis of {x} has no value; guard the extent"
        )


def _type_reduce(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("reduce", "x", types[0])
    kind, axes = attrs["kind"], normalize_axes("reduce", attrs["axes"], x.rank)
    _require_operand(kind, x)
    _refuse_empty(kind, x, axes)
    kept = [1 if i in axes else dim for i, dim in enumerate(x.shape) if attrs["keepdim"] or i not in axes]
    layout = reduced_layout("reduce", x, axes, attrs["keepdim"], kind)
    return viewed_type("reduce", x, tuple(kept), layout)


def _evaluate_reduce(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    kind, axes, keepdim = attrs["kind"], attrs["axes"], attrs["keepdim"]
    x, dtype = values[0], ctx.result_type.dtype
    if not axes:
        return compute(lambda each: each.abs() if kind is ReduceKind.ABSMAX else each, dtype, x)
    if dtype.is_float:
        return rounded(_reduced(kind, decode(x, dtype), axes, keepdim), dtype)
    if dtype.is_bool:
        return _reduced(kind, x.byte(), axes, keepdim).bool()
    return convert(_reduced(kind, x.long(), axes, keepdim), DType.i64, dtype)


def _reduced(kind: ReduceKind, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    if kind is ReduceKind.SUM:
        return x.sum(dim=axes, keepdim=keepdim)
    if kind is ReduceKind.MEAN:
        return x.mean(dim=axes, keepdim=keepdim)
    if any(x.shape[axis] == 0 for axis in axes):
        return _empty_extreme(kind, x, axes, keepdim)
    if kind is ReduceKind.MIN:
        return x.amin(dim=axes, keepdim=keepdim)
    if kind is ReduceKind.MAX:
        return x.amax(dim=axes, keepdim=keepdim)
    # |x| as the negative of a minimum: the most negative integer has no positive counterpart.
    return -(-x.abs()).amin(dim=axes, keepdim=keepdim)


def _empty_extreme(kind: ReduceKind, x: Any, axes: tuple[int, ...], keepdim: bool) -> Any:
    empty = x.sum(dim=axes, keepdim=keepdim)
    if empty.numel():
        raise EvaluationError(
            f"tf.reduce: {kind.value} over axes {axes} of shape {tuple(x.shape)} has no value, one is empty"
        )
    return empty


OPS = (
    Op(
        "reduce",
        ("x",),
        _type_reduce,
        _evaluate_reduce,
        (
            Attr("axes", convert=attributes.axes),
            Attr("keepdim", True, attributes.boolean),
            Attr("kind", ReduceKind.MEAN, attributes.kind(ReduceKind)),
        ),
        normalize=_normalize_reduce,
        doc="the sum, mean, max, min or max(|x|) over axes; keepdim leaves them with extent 1",
    ),
)
