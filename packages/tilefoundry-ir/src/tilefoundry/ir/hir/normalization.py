"""softmax, rms_norm, layer_norm: rows are reduced in the wide type and rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir.arithmetic import require_arithmetic, rounded
from tilefoundry.ir.hir.attributes import integer, real
from tilefoundry.ir.hir.conversion import decode
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import normalize_axis, require_dtype, require_same_dtype, require_tensor
from tilefoundry.ir.types import DType, TensorType, Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]


def _normal_axis(op: str) -> Any:
    def normalize(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
        x = require_tensor(op, "x", types[0])
        return {**attrs, "axis": normalize_axis(op, attrs["axis"], x.rank)}

    return normalize


def _require_float(op: str, x: TensorType) -> None:
    require_arithmetic(op, "x", x)
    require_dtype(op, "x", x, x.dtype.is_float, "a float")
    if not x.rank:
        raise TypeRuleError(f"tf.{op}: x is the scalar {x}; it needs an axis to reduce")


def _require_affine(op: str, types: tuple[Type, ...], axis: int) -> tuple[tuple[str, TensorType], ...]:
    names = ("x", "weight", "bias")
    operands = tuple((name, require_tensor(op, name, t)) for name, t in zip(names, types, strict=False))
    x = operands[0][1]
    _require_float(op, x)
    if len(operands) > 2:
        require_same_dtype(op, operands[1:])
    for name, type_ in operands[1:]:
        fits = type_.dtype in (x.dtype, DType.f32)
        require_dtype(
            op, name, type_, fits, "f32" if x.dtype is DType.f32 else f"{x.dtype}, as x has, or f32"
        )
        if type_.shape != x.shape[axis:]:
            expected = x.with_shape(x.shape[axis:])
            raise TypeRuleError(
                f"tf.{op}: {name} is {type_}, but x is {x}, normalised from axis {axis}: {expected} is needed"
            )
    return operands


def _type_softmax(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("softmax", "x", types[0])
    _require_float("softmax", x)
    normalize_axis("softmax", attrs["axis"], x.rank)
    return elementwise_type("softmax", x.shape, x.dtype, (("x", x),))


def _evaluate_softmax(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    dtype = ctx.result_type.dtype
    return rounded(torch.softmax(decode(values[0], dtype), dim=attrs["axis"]), dtype)


def _decoded(ctx: Any, values: tuple[Any, ...]) -> list[Any]:
    """The operands in the wide type of x, the first."""
    wide = [decode(value, type_.dtype) for value, type_ in zip(values, ctx.operand_types, strict=True)]
    return [each.to(wide[0].dtype) for each in wide]


def _type_rms_norm(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("rms_norm", "x", types[0])
    operands = _require_affine("rms_norm", types, max(x.rank - 1, 0))
    return elementwise_type("rms_norm", x.shape, x.dtype, operands)


def _evaluate_rms_norm(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    dtype = ctx.result_type.dtype
    x, *weight = _decoded(ctx, values)
    out = x * torch.rsqrt(x.square().mean(dim=-1, keepdim=True) + attrs["eps"])
    return rounded(out * weight[0] if weight else out, dtype)


def _type_layer_norm(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("layer_norm", "x", types[0])
    axis = normalize_axis("layer_norm", attrs["axis"], x.rank)
    operands = _require_affine("layer_norm", types, axis)
    return elementwise_type("layer_norm", x.shape, x.dtype, operands)


def _evaluate_layer_norm(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    dtype = ctx.result_type.dtype
    x, *affine = _decoded(ctx, values)
    axes = tuple(range(attrs["axis"] % x.dim(), x.dim()))
    centred = x - x.mean(dim=axes, keepdim=True)
    out = centred * torch.rsqrt(centred.square().mean(dim=axes, keepdim=True) + attrs["eps"])
    if affine:
        out = out * affine[0]
    return rounded(out + affine[1] if len(affine) > 1 else out, dtype)


OPS = (
    Op(
        "softmax",
        ("x",),
        _type_softmax,
        _evaluate_softmax,
        (Attr("axis", -1, integer),),
        normalize=_normal_axis("softmax"),
        doc="exp(x - max(x)) / sum(exp(x - max(x))) along axis",
    ),
    Op(
        "rms_norm",
        ("x", "weight"),
        _type_rms_norm,
        _evaluate_rms_norm,
        (Attr("eps", 1e-6, real),),
        optional=1,
        doc="x / sqrt(mean(x * x) + eps) * weight over the last axis; weight may be left out",
    ),
    Op(
        "layer_norm",
        ("x", "weight", "bias"),
        _type_layer_norm,
        _evaluate_layer_norm,
        (Attr("axis", -1, integer), Attr("eps", 1e-5, real)),
        optional=2,
        normalize=_normal_axis("layer_norm"),
        doc="(x - mean) / sqrt(variance + eps) * weight + bias over the axes from axis to the last; "
        "weight and bias have the shape of those axes and may be left out",
    ),
)
