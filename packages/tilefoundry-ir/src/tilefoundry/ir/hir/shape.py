"""reshape, transpose, repeat_interleave: other views of the same elements."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.byteview import moved
from tilefoundry.ir.hir.placement import carried_type, kept_axes, viewed_type
from tilefoundry.ir.hir.rules import normalize_axes, normalize_axis, require_tensor
from tilefoundry.ir.hir.shard_views import reshaped_layout, transposed_layout
from tilefoundry.ir.types import Dim, TensorType, Type
from tilefoundry.ir.types.dim import product, proven_equal
from tilefoundry.ir.types.shard.divide import exact_quotient

__all__ = ["OPS"]


def _normalize_reshape(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    x = require_tensor("reshape", "x", types[0])
    shape = attrs["new_shape"]
    holes = [i for i, dim in enumerate(shape) if dim == -1]
    if any(isinstance(dim, int) and dim < -1 for dim in shape) or len(holes) > 1:
        raise TypeRuleError(
            f"tf.reshape: new_shape {_text(shape)} may hold one -1 and no other negative extent"
        )
    if not holes:
        return dict(attrs)
    known = tuple(dim for dim in shape if dim != -1)
    return {**attrs, "new_shape": tuple(_hole(x, known, shape) if dim == -1 else dim for dim in shape)}


def _hole(x: TensorType, known: tuple[Dim, ...], shape: tuple[Dim, ...]) -> Dim:
    """The extent that -1 stands for: the size of ``x`` over the product of the known extents."""
    left, right = Counter(x.shape), Counter(known)
    numerator = product((left - right).elements())
    divisor = product((right - left).elements())
    quotient = None if 0 in known else exact_quotient(numerator, divisor)
    if quotient is None:
        raise TypeRuleError(
            f"tf.reshape: the -1 of {_text(shape)} cannot be worked out from {x}: "
            f"{product(known)} does not divide {x.size} in every case; write the extent out"
        )
    return quotient


def _text(shape: tuple[Dim, ...]) -> str:
    return "(" + ", ".join(map(str, shape)) + ")"


def _type_reshape(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("reshape", "x", types[0])
    shape = attrs["new_shape"]
    size = product(shape)
    if not proven_equal(size, x.size):
        known = isinstance(size, int) and isinstance(x.size, int)
        unproven = "" if known else ", and nothing proves these equal for every value of the extents"
        raise TypeRuleError(
            f"tf.reshape: x is {x} with {x.size} elements, new_shape {_text(shape)} has {size}{unproven}; "
            "make them equal, or leave one extent to -1"
        )
    return viewed_type("reshape", x, shape, reshaped_layout("reshape", x, shape))


def _evaluate_reshape(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    shape = tuple(ctx.dim(dim) for dim in attrs["new_shape"])
    return moved(lambda x: x.reshape(shape), values[0])


def _normalize_transpose(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    x = require_tensor("transpose", "x", types[0])
    perm = tuple(reversed(range(x.rank))) if attrs["perm"] is None else attrs["perm"]
    return {**attrs, "perm": normalize_axes("transpose", perm, x.rank, "perm")}


def _type_transpose(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("transpose", "x", types[0])
    perm = attrs["perm"]
    if len(perm) != x.rank:
        raise TypeRuleError(
            f"tf.transpose: perm {perm} has {len(perm)} axes, x is {x} of rank {x.rank}; name each once"
        )
    shape = tuple(x.shape[axis] for axis in perm)
    return viewed_type("transpose", x, shape, transposed_layout("transpose", x, perm))


def _evaluate_transpose(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return values[0].permute(attrs["perm"])


def _normalize_repeat(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    x = require_tensor("repeat_interleave", "x", types[0])
    return {**attrs, "axis": normalize_axis("repeat_interleave", attrs["axis"], x.rank)}


def _type_repeat(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("repeat_interleave", "x", types[0])
    axis = attrs["axis"]
    shape = (*x.shape[:axis], x.shape[axis] * attrs["repeats"], *x.shape[axis + 1 :])
    return carried_type("repeat_interleave", shape, x.dtype, (("x", x),), kept_axes(x.rank, axis))


def _evaluate_repeat(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    axis, repeats = attrs["axis"], attrs["repeats"]
    return moved(lambda x: x.repeat_interleave(repeats, dim=axis), values[0])


OPS = (
    Op(
        "reshape",
        ("x",),
        _type_reshape,
        _evaluate_reshape,
        (Attr("new_shape", convert=attributes.dims),),
        normalize=_normalize_reshape,
        doc="the elements of x in row-major order under new_shape; one extent may be -1",
    ),
    Op(
        "transpose",
        ("x",),
        _type_transpose,
        _evaluate_transpose,
        (Attr("perm", None, attributes.optional(attributes.axes)),),
        normalize=_normalize_transpose,
        doc="axis i of the result is axis perm[i] of x; no perm reverses the axes",
    ),
    Op(
        "repeat_interleave",
        ("x",),
        _type_repeat,
        _evaluate_repeat,
        (Attr("repeats", convert=attributes.positive), Attr("axis", convert=attributes.integer)),
        normalize=_normalize_repeat,
        doc="out[..., i, ...] = x[..., i // repeats, ...] along axis",
    ),
)
