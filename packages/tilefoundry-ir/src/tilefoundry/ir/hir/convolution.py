"""conv2d over [batch, channels, height, width]; accumulated in the wide type and rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.arithmetic import require_arithmetic, rounded
from tilefoundry.ir.hir.conversion import decode
from tilefoundry.ir.hir.placement import fresh_type
from tilefoundry.ir.hir.rules import require_dtype, require_same_dtype, require_tensor
from tilefoundry.ir.types import Dim, TensorType, Type, bounds
from tilefoundry.ir.types.dim import floordiv

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]


def _type_conv2d(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    names = ("x", "weight", "bias")
    operands = tuple((n, require_tensor("conv2d", n, t)) for n, t in zip(names, types, strict=False))
    dtype = require_same_dtype("conv2d", operands)
    x, weight = operands[0][1], operands[1][1]
    require_arithmetic("conv2d", "x", x)
    require_dtype("conv2d", "x", x, dtype.is_float, "a float")
    if x.rank != 4 or weight.rank != 4:
        raise TypeRuleError(
            f"tf.conv2d: x is {x} and weight {weight}; x[batch, channels, height, width] and "
            "weight[outputs, channels / groups, height, width] are needed"
        )
    _require_channels(x, weight, attrs["groups"])
    if len(operands) > 2 and operands[2][1].shape != weight.shape[:1]:
        raise TypeRuleError(
            f"tf.conv2d: bias is {operands[2][1]}, weight is {weight}; one bias per output is needed"
        )
    spatial = tuple(_extent(x, weight, axis, attrs) for axis in (0, 1))
    return fresh_type("conv2d", (x.shape[0], weight.shape[0], *spatial), dtype, operands)


def _require_channels(x: TensorType, weight: TensorType, groups: int) -> None:
    outputs = weight.shape[0]
    if weight.shape[1] * groups != x.shape[1] or floordiv(outputs, groups) * groups != outputs:
        raise TypeRuleError(
            f"tf.conv2d: weight {weight} with groups={groups} does not fit x {x}: its axis 1 must be the "
            f"{x.shape[1]} channels over groups, its axis 0 a multiple of groups"
        )


def _extent(x: TensorType, weight: TensorType, axis: int, attrs: Mapping[str, Any]) -> Dim:
    kernel = weight.shape[2 + axis]
    if not isinstance(kernel, int) or kernel < 1:
        raise TypeRuleError(
            f"tf.conv2d: weight is {weight}; its height and width must be integers of 1 or more"
        )
    reach = attrs["dilation"][axis] * (kernel - 1) + 1
    room = x.shape[2 + axis] + 2 * attrs["padding"][axis] - reach
    if bounds(room)[1] < 0:
        raise TypeRuleError(
            f"tf.conv2d: the kernel reaches over {reach} elements of axis {2 + axis}, x is {x} with padding "
            f"{attrs['padding'][axis]}"
        )
    return floordiv(room, attrs["stride"][axis]) + 1


def _evaluate_conv2d(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    dtype = ctx.result_type.dtype
    x, weight, *bias = (decode(value, dtype) for value in values)
    shape = ctx.shape(ctx.result_type)
    if any(extent < 1 for extent in shape[2:]):
        raise EvaluationError(f"tf.conv2d: x of shape {tuple(x.shape)} is smaller than the kernel's reach")
    if 0 in shape or 0 in x.shape:
        out = torch.zeros(shape, dtype=x.dtype, device=x.device)
        return rounded(out + bias[0].reshape(-1, 1, 1) if bias else out, dtype)
    return rounded(_convolved(x, weight, bias, attrs), dtype)


def _convolved(x: Any, weight: Any, bias: list[Any], attrs: Mapping[str, Any]) -> Any:
    import torch

    if x.device.type == "cuda":
        # Convolutions on this device may drop to TF32 by a process-wide switch; doubles are out of its reach.
        wide = (each.double() for each in (x, weight, *bias))
    else:
        wide = (x, weight, *bias)
    options = (attrs["stride"], attrs["padding"], attrs["dilation"], attrs["groups"])
    x_, weight_, *bias_ = wide
    return torch.conv2d(x_, weight_, bias_[0] if bias_ else None, *options).to(x.dtype)


def _not_negative(value: Any) -> int:
    whole = attributes.integer(value)
    if whole < 0:
        raise ValueError(f"an integer of 0 or more is needed, got {whole}")
    return whole


OPS = (
    Op(
        "conv2d",
        ("x", "weight", "bias"),
        _type_conv2d,
        _evaluate_conv2d,
        (
            Attr("stride", (1, 1), attributes.pair(attributes.positive)),
            Attr("padding", (0, 0), attributes.pair(_not_negative)),
            Attr("dilation", (1, 1), attributes.pair(attributes.positive)),
            Attr("groups", 1, attributes.positive),
        ),
        optional=1,
        doc="out[b, o, i, j] = bias[o] + sum over c, u, v of weight[o, c, u, v] * x[b, g + c, i * stride + "
        "u * dilation - padding, ...], zero outside, g the first channel of o's group",
    ),
)
