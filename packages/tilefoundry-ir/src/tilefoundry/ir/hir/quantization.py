"""cast and quant: changes of element type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.conversion import convert
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import require_tensor
from tilefoundry.ir.types import Type

__all__ = ["OPS"]


def _type_cast(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x = require_tensor("cast", "x", types[0])
    return elementwise_type("cast", x.shape, attrs["dtype"], (("x", x),))


def _evaluate_cast(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    return convert(values[0], ctx.operand_types[0].dtype, attrs["dtype"])


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
)
