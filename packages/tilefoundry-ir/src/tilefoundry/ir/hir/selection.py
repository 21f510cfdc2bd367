"""where, argmax, topk: choose elements.

NaN counts as the greatest value in argmax and topk, as it wins in max; equal values go to the lower index.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.arithmetic import require_arithmetic
from tilefoundry.ir.hir.byteview import moved
from tilefoundry.ir.hir.conversion import decode
from tilefoundry.ir.hir.placement import carried_type, elementwise_type, kept_axes
from tilefoundry.ir.hir.rules import (
    broadcast_shapes,
    normalize_axis,
    require_dtype,
    require_same_dtype,
    require_tensor,
)
from tilefoundry.ir.types import DType, TensorType, TupleType, Type, bounds

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]


def _type_where(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    names = ("condition", "a", "b")
    operands = tuple((n, require_tensor("where", n, t)) for n, t in zip(names, types, strict=True))
    condition = operands[0][1]
    require_dtype("where", "condition", condition, condition.dtype.is_bool, "bool")
    dtype = require_same_dtype("where", operands[1:])
    shape = broadcast_shapes("where", *(type_.shape for _, type_ in operands))
    return elementwise_type("where", shape, dtype, operands)


def _evaluate_where(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    condition, a, b = values
    return moved(lambda left, right: torch.where(condition, left, right), a, b)


def _normal_axis(op: str) -> Any:
    def normalize(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
        x = require_tensor(op, "x", types[0])
        return {**attrs, "axis": normalize_axis(op, attrs["axis"], x.rank)}

    return normalize


def _ordered_operand(op: str, type_: Type) -> TensorType:
    x = require_tensor(op, "x", type_)
    require_arithmetic(op, "x", x)
    require_dtype(op, "x", x, not x.dtype.is_bool, "a number")
    return x


def _type_argmax(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x, axis = _ordered_operand("argmax", types[0]), attrs["axis"]
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    if x.shape[axis] == 0 and all(bounds(dim)[0] > 0 for dim in shape):
        raise TypeRuleError(f"tf.argmax: axis {axis} of {x} is empty, it has no greatest element")
    sources = [kept for kept in range(x.rank) if kept != axis]
    return carried_type("argmax", shape, DType.i64, (("x", x),), sources)


def _evaluate_argmax(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    axis = attrs["axis"]
    x = decode(values[0], ctx.operand_types[0].dtype)
    if x.shape[axis]:
        return x.argmax(axis)
    empty = x.sum(dim=axis).long()
    if empty.numel():
        raise EvaluationError(f"tf.argmax: axis {axis} of shape {tuple(x.shape)} is empty")
    return empty


def _type_topk(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x, axis, k = _ordered_operand("topk", types[0]), attrs["axis"], attrs["k"]
    if not 0 <= k <= bounds(x.shape[axis])[1]:
        raise TypeRuleError(
            f"tf.topk: k={k} is outside [0, {x.shape[axis]}], the extent of axis {axis} of {x}"
        )
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values = carried_type("topk", shape, x.dtype, (("x", x),), kept_axes(x.rank, axis))
    return TupleType((values, values.with_dtype(DType.i64)))


def _evaluate_topk(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    x, axis, k = values[0], attrs["axis"], attrs["k"]
    if k > x.shape[axis]:
        raise EvaluationError(f"tf.topk: k={k} is more than axis {axis} of shape {tuple(x.shape)} holds")
    keys = decode(x, ctx.operand_types[0].dtype)
    order = keys.sort(dim=axis, descending=attrs["largest"], stable=True).indices.narrow(axis, 0, k)
    return moved(lambda data: data.gather(axis, order), x), order.contiguous()


OPS = (
    Op(
        "where",
        ("condition", "a", "b"),
        _type_where,
        _evaluate_where,
        doc="a where condition holds, b elsewhere; all three broadcast",
    ),
    Op(
        "argmax",
        ("x",),
        _type_argmax,
        _evaluate_argmax,
        (Attr("axis", -1, attributes.integer),),
        normalize=_normal_axis("argmax"),
        doc="the i64 index of the greatest element along axis, which is dropped; the lowest index of equals",
    ),
    Op(
        "topk",
        ("x",),
        _type_topk,
        _evaluate_topk,
        (
            Attr("k", convert=attributes.integer),
            Attr("axis", -1, attributes.integer),
            Attr("largest", True, attributes.boolean),
            Attr("sorted", True, attributes.boolean),
        ),
        normalize=_normal_axis("topk"),
        doc="(values, i64 indices) of the k greatest (or least) elements along axis, best first; equal values go "
        "to the lower index; the evaluator sorts whether asked or not",
    ),
)
