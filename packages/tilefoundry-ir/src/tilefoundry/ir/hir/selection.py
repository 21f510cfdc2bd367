"""where, argmax, topk: choose elements."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Op
from tilefoundry.ir.hir.byteview import moved
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import broadcast_shapes, require_dtype, require_same_dtype, require_tensor
from tilefoundry.ir.types import Type

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


OPS = (
    Op(
        "where",
        ("condition", "a", "b"),
        _type_where,
        _evaluate_where,
        doc="a where condition holds, b elsewhere; all three broadcast",
    ),
)
