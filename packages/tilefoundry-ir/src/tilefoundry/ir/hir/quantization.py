"""cast and quant: changes of element type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.conversion import convert, decode
from tilefoundry.ir.hir.placement import carried_type, elementwise_type, kept_axes
from tilefoundry.ir.hir.rules import require_dtype, require_tensor
from tilefoundry.ir.types import DType, TupleType, Type
from tilefoundry.ir.types.dim import floordiv

__all__ = ["OPS", "QUANT_LIMITS"]

QUANT_LIMITS = {DType.fp8e4m3: 448.0, DType.fp8e5m2: 57344.0, DType.f4e2m1: 6.0, DType.i8: 127.0}
"""Target of ``quant`` -> the magnitude that the greatest element of a group is scaled to."""

_LEAST_MAXIMUM = 1e-10


def _type_cast(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("cast", "x", types[0])
    return elementwise_type("cast", x.shape, attrs["dtype"], (("x", x),))


def _evaluate_cast(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return convert(values[0], ctx.operand_types[0].dtype, attrs["dtype"])


def _type_quant(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x, group, target = require_tensor("quant", "x", types[0]), attrs["group"], attrs["target_dtype"]
    require_dtype("quant", "x", x, x.dtype in (DType.f32, DType.f16, DType.bf16), "f32, f16 or bf16")
    if target not in QUANT_LIMITS:
        known = ", ".join(map(str, QUANT_LIMITS))
        raise TypeRuleError(f"tf.quant: target_dtype is {target}; there are {known}")
    if not x.rank or floordiv(x.shape[-1], group) * group != x.shape[-1]:
        raise TypeRuleError(
            f"tf.quant: the last axis of x {x} does not divide into groups of {group} in every case"
        )
    operands = (("x", x),)
    scales = (*x.shape[:-1], floordiv(x.shape[-1], group))
    codes = elementwise_type("quant", x.shape, target, operands)
    return TupleType(
        (codes, carried_type("quant", scales, DType.f32, operands, kept_axes(x.rank, x.rank - 1)))
    )


def _evaluate_quant(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    target = attrs["target_dtype"]
    limit = QUANT_LIMITS[target]
    exact = decode(values[0], ctx.operand_types[0].dtype)
    groups = exact.unflatten(-1, (exact.shape[-1] // attrs["group"], attrs["group"]))
    scale = groups.abs().amax(dim=-1, keepdim=True).clamp(min=_LEAST_MAXIMUM) / limit
    scaled = (groups / scale).clamp(-limit, limit)
    codes = convert(scaled.round() if target.is_integer else scaled, DType.f32, target)
    return codes.reshape(exact.shape), scale.squeeze(-1)


OPS = (
    Op(
        "cast",
        ("x",),
        _type_cast,
        _evaluate_cast,
        (Attr("dtype", convert=attributes.dtype),),
        doc="x in another dtype: to float rounds to nearest even; float to integer truncates and saturates, "
        "NaN gives 0; integers keep their low bits; bool is x != 0",
    ),
    Op(
        "quant",
        ("x",),
        _type_quant,
        _evaluate_quant,
        (
            Attr("scheme", "per_token_group", attributes.choice("per_token_group")),
            Attr("group", 128, attributes.positive),
            Attr("target_dtype", DType.fp8e4m3, attributes.dtype),
        ),
        doc="(q, f32 scales) over groups of the last axis: scale = max(max |x|, 1e-10) / limit of "
        "target_dtype, q = x / scale in target_dtype, integers rounded to nearest even",
    ),
)
