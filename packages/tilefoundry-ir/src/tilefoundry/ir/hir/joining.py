"""concat, stack, split, tuple_get_item: join tensors along an axis and take them apart."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.byteview import moved
from tilefoundry.ir.hir.placement import carried_type, kept_axes
from tilefoundry.ir.hir.rules import normalize_axis, require_same_dtype, require_tensor
from tilefoundry.ir.types import Dim, TensorType, TupleType, Type
from tilefoundry.ir.types.dim import floordiv

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]


def _operands(op: str, types: tuple[Type, ...]) -> tuple[tuple[str, TensorType], ...]:
    return tuple((f"xs[{i}]", require_tensor(op, f"xs[{i}]", type_)) for i, type_ in enumerate(types))


def _normal_axis(op: str, extra: int) -> Any:
    def normalize(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
        first = require_tensor(op, "xs[0]", types[0])
        return {**attrs, "axis": normalize_axis(op, attrs["axis"], first.rank + extra)}

    return normalize


def _type_concat(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    operands = _operands("concat", types)
    dtype = require_same_dtype("concat", operands)
    axis, first = attrs["axis"], operands[0][1]
    total: Dim = 0
    for name, type_ in operands:
        if type_.rank != first.rank or _without(type_, axis) != _without(first, axis):
            raise TypeRuleError(
                f"tf.concat: {name} is {type_}, xs[0] is {first}; they may differ in axis {axis} alone"
            )
        total = total + type_.shape[axis]
    shape = (*first.shape[:axis], total, *first.shape[axis + 1 :])
    return carried_type("concat", shape, dtype, operands, kept_axes(first.rank, axis))


def _without(type_: TensorType, axis: int) -> tuple[Dim, ...]:
    return type_.shape[:axis] + type_.shape[axis + 1 :]


def _evaluate_concat(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    return moved(lambda *xs: torch.cat(xs, dim=attrs["axis"]), *values)


def _type_stack(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    operands = _operands("stack", types)
    dtype = require_same_dtype("stack", operands)
    axis, first = attrs["axis"], operands[0][1]
    for name, type_ in operands:
        if type_.shape != first.shape:
            raise TypeRuleError(f"tf.stack: {name} is {type_}, xs[0] is {first}; equal shapes are needed")
    shape = (*first.shape[:axis], len(operands), *first.shape[axis:])
    sources = (*range(axis), None, *range(axis, first.rank))
    return carried_type("stack", shape, dtype, operands, sources)


def _evaluate_stack(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    return moved(lambda *xs: torch.stack(xs, dim=attrs["axis"]), *values)


def _normalize_split(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    x = require_tensor("split", "x", types[0])
    return {**attrs, "axis": normalize_axis("split", attrs["axis"], x.rank)}


def _type_split(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("split", "x", types[0])
    axis, parts = attrs["axis"], attrs["num_splits"]
    extent = floordiv(x.shape[axis], parts)
    if extent * parts != x.shape[axis]:
        raise TypeRuleError(
            f"tf.split: axis {axis} of {x} does not divide into {parts} equal parts in every case; "
            "use tf.slice for unequal ones"
        )
    shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
    part = carried_type("split", shape, x.dtype, (("x", x),), kept_axes(x.rank, axis))
    return TupleType((part,) * parts)


def _evaluate_split(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    axis, parts = attrs["axis"], attrs["num_splits"]
    extent = values[0].shape[axis] // parts
    return tuple(values[0].narrow(axis, i * extent, extent) for i in range(parts))


def _type_item(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    group, index = types[0], attrs["index"]
    if not isinstance(group, TupleType):
        raise TypeRuleError(f"tf.tuple_get_item: x must be a tuple, got {group}")
    if not 0 <= index < len(group.elements):
        raise TypeRuleError(f"tf.tuple_get_item: index {index} is outside a tuple of {len(group.elements)}")
    return group.elements[index]


def _evaluate_item(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return values[0][attrs["index"]]


OPS = (
    Op(
        "concat",
        ("xs",),
        _type_concat,
        _evaluate_concat,
        (Attr("axis", 0, attributes.integer),),
        variadic=True,
        normalize=_normal_axis("concat", 0),
        doc="xs one after the other along axis",
    ),
    Op(
        "stack",
        ("xs",),
        _type_stack,
        _evaluate_stack,
        (Attr("axis", 0, attributes.integer),),
        variadic=True,
        normalize=_normal_axis("stack", 1),
        doc="xs side by side along a new axis",
    ),
    Op(
        "split",
        ("x",),
        _type_split,
        _evaluate_split,
        (Attr("axis", convert=attributes.integer), Attr("num_splits", convert=attributes.positive)),
        normalize=_normalize_split,
        doc="x in num_splits equal parts along axis, as a tuple",
    ),
    Op(
        "tuple_get_item",
        ("x",),
        _type_item,
        _evaluate_item,
        (Attr("index", convert=attributes.integer),),
        doc="element index of the tuple x",
    ),
)
