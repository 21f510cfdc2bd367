"""slice and insert_slice: read or replace a window."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import attributes, windows
from tilefoundry.ir.hir.byteview import moved
from tilefoundry.ir.hir.placement import carried_type, kept_axes
from tilefoundry.ir.hir.rules import require_same_dtype, require_tensor
from tilefoundry.ir.types import Dim, TensorType, Type, bounds, ceildiv

__all__ = ["OPS"]


def _normalize_slice(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    x = require_tensor("slice", "x", types[0])
    windows.require_starts("slice", "starts", attrs["starts"], types[1:], x.rank)
    strides = (1,) * x.rank if attrs["strides"] is None else attrs["strides"]
    if len(strides) != x.rank:
        raise TypeRuleError(
            f"tf.slice: strides {strides} has {len(strides)} entries, x is {x}; give one per axis"
        )
    sizes = _rest(x, attrs["starts"], strides) if attrs["sizes"] is None else attrs["sizes"]
    return {**attrs, "sizes": sizes, "strides": strides}


def _rest(x: TensorType, starts: tuple[Dim | None, ...], strides: tuple[int, ...]) -> tuple[Dim, ...]:
    """Sizes that run to the end of each axis."""
    if None in starts:
        raise TypeRuleError(
            "tf.slice: a start that is a value needs sizes=, so that the result has a known shape"
        )
    known = [start for start in starts if start is not None]
    return tuple(ceildiv(dim - start, step) for dim, start, step in zip(x.shape, known, strides, strict=True))


def _type_slice(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("slice", "x", types[0])
    sizes = attrs["sizes"]
    if len(sizes) != x.rank:
        raise TypeRuleError(f"tf.slice: sizes has {len(sizes)} entries, x is {x}; give one per axis")
    for axis, size in enumerate(sizes):
        if bounds(size)[0] < 0:
            raise TypeRuleError(f"tf.slice: sizes[{axis}] = {size} can be negative; x is {x}")
    windows.check_window("slice", x, attrs["starts"], sizes, attrs["strides"])
    cut = [
        axis
        for axis, (start, size) in enumerate(zip(attrs["starts"], sizes, strict=True))
        if start != 0 or size != x.shape[axis] or attrs["strides"][axis] != 1
    ]
    return carried_type("slice", sizes, x.dtype, (("x", x),), kept_axes(x.rank, *cut))


def _evaluate_slice(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    x, *given = values
    begin = windows.resolve_starts(ctx, attrs["starts"], given)
    sizes = tuple(ctx.dim(size) for size in attrs["sizes"])
    return x[windows.window_slices("slice", x.shape, begin, sizes, attrs["strides"])]


def _type_insert(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    dst, update = (
        require_tensor("insert_slice", n, t) for n, t in zip(("dst", "update"), types, strict=False)
    )
    operands = (("dst", dst), ("update", update))
    dtype = require_same_dtype("insert_slice", operands)
    if dst.rank != update.rank:
        raise TypeRuleError(f"tf.insert_slice: dst is {dst}, update is {update}; equal ranks are needed")
    windows.require_starts("insert_slice", "offsets", attrs["offsets"], types[2:], dst.rank)
    windows.check_window("insert_slice", dst, attrs["offsets"], update.shape, (1,) * dst.rank)
    cut = [axis for axis in range(dst.rank) if update.shape[axis] != dst.shape[axis]]
    return carried_type("insert_slice", dst.shape, dtype, operands, kept_axes(dst.rank, *cut))


def _evaluate_insert(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    dst, update, *given = values
    begin = windows.resolve_starts(ctx, attrs["offsets"], given)
    window = windows.window_slices("insert_slice", dst.shape, begin, update.shape, (1,) * dst.dim())
    return moved(lambda d, u: _replaced(d, window, u), dst, update)


def _replaced(dst: Any, window: tuple[slice, ...], update: Any) -> Any:
    out = dst.clone()
    out[window] = update
    return out


OPS = (
    Op(
        "slice",
        ("x", "start"),
        _type_slice,
        _evaluate_slice,
        (
            Attr("starts", convert=windows.starts),
            Attr("sizes", None, attributes.optional(attributes.dims)),
            Attr("strides", None, attributes.optional(attributes.sequence(attributes.positive))),
        ),
        variadic=True,
        optional=1,
        normalize=_normalize_slice,
        doc="out[i, ...] = x[starts[0] + i * strides[0], ...] for i < sizes[0]; a start that is None takes "
        "the next start operand; without sizes the window runs to the end of each axis",
    ),
    Op(
        "insert_slice",
        ("dst", "update", "offset"),
        _type_insert,
        _evaluate_insert,
        (Attr("offsets", convert=windows.starts),),
        variadic=True,
        optional=1,
        doc="dst with the window of update's shape at offsets replaced by update; an offset that is None "
        "takes the next offset operand",
    ),
)
