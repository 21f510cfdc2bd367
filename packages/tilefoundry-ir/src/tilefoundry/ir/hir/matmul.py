"""matmul and grouped_matmul: contractions accumulated in the wide type (i64 for integers), rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from tilefoundry.ir.core.op import Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir.arithmetic import product, require_arithmetic, rounded
from tilefoundry.ir.hir.conversion import convert, decode
from tilefoundry.ir.hir.placement import anchor_storage, fresh_type
from tilefoundry.ir.hir.rules import (
    broadcast_shapes,
    require_dtype,
    require_index,
    require_same_dtype,
    require_tensor,
)
from tilefoundry.ir.hir.shard_contractions import matmul_layout
from tilefoundry.ir.types import DType, TensorType, Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]


def _require_factors(op: str, operands: tuple[tuple[str, TensorType], ...]) -> DType:
    dtype = require_same_dtype(op, operands)
    for name, type_ in operands:
        require_arithmetic(op, name, type_)
        require_dtype(op, name, type_, not dtype.is_bool, "a number")
    return dtype


def _require_contraction(op: str, left: tuple[str, TensorType], right: tuple[str, TensorType]) -> None:
    (lname, lhs), (rname, rhs) = left, right
    if lhs.shape[-1] != rhs.shape[-2]:
        raise TypeRuleError(
            f"tf.{op}: the last axis of {lname} {lhs} meets the second to last of {rname} {rhs}, but "
            f"{lhs.shape[-1]} is not {rhs.shape[-2]}; use tf.transpose where {rname} is stored transposed"
        )


def _type_matmul(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    operands = tuple((n, require_tensor("matmul", n, t)) for n, t in zip(("lhs", "rhs"), types, strict=True))
    for name, type_ in operands:
        if type_.rank < 2:
            raise TypeRuleError(
                f"tf.matmul: {name} is {type_}, rank 2 or more is needed; use tf.reshape to add an axis"
            )
    dtype = _require_factors("matmul", operands)
    _require_contraction("matmul", *operands)
    lhs, rhs = operands[0][1], operands[1][1]
    batch = broadcast_shapes("matmul", lhs.shape[:-2], rhs.shape[:-2])
    shape = (*batch, lhs.shape[-2], rhs.shape[-1])
    layout = matmul_layout("matmul", lhs, rhs, shape)
    return TensorType(shape, dtype, layout, anchor_storage("matmul", operands))


def _product(lhs: Any, rhs: Any, dtype: DType) -> Any:
    """``lhs @ rhs`` of elements of ``dtype``, rounded once; integers modulo 2**64, then cut to ``dtype``."""
    if dtype.is_float:
        return rounded(product(decode(lhs, dtype), decode(rhs, dtype)), dtype)
    return convert(_integer_product(lhs.long(), rhs.long()), DType.i64, dtype)


def _integer_product(lhs: Any, rhs: Any) -> Any:
    if lhs.device.type == "cpu":
        return lhs @ rhs
    # torch has no integer product on other devices: one rank-1 update per contracted element.
    total = (
        lhs[..., :, :1] * rhs[..., :1, :]
        if lhs.shape[-1]
        else (lhs[..., :, :1].sum(-1, keepdim=True) * rhs.sum(-2, keepdim=True))
    )
    for k in range(1, lhs.shape[-1]):
        total += lhs[..., :, k : k + 1] * rhs[..., k : k + 1, :]
    return total


def _evaluate_matmul(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    lhs, rhs = values
    return _product(lhs, rhs, ctx.result_type.dtype)


def _type_grouped_matmul(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    names = ("x", "w", "offsets")
    x, w, offsets = (require_tensor("grouped_matmul", n, t) for n, t in zip(names, types, strict=True))
    factors = (("x", x), ("w", w))
    if x.rank != 2 or w.rank != 3:
        raise TypeRuleError(
            f"tf.grouped_matmul: x is {x} and w is {w}; x[rows, k] and w[groups, k, n] are needed"
        )
    dtype = _require_factors("grouped_matmul", factors)
    _require_contraction("grouped_matmul", *factors)
    require_index("grouped_matmul", "offsets", offsets)
    if offsets.shape != (w.shape[0] + 1,):
        raise TypeRuleError(
            f"tf.grouped_matmul: offsets is {offsets}, w has {w.shape[0]} groups; one offset more is needed"
        )
    return fresh_type("grouped_matmul", (x.shape[0], w.shape[2]), dtype, factors)


def _checked_offsets(offsets: list[int], rows: int) -> list[int]:
    if offsets[0] != 0 or offsets[-1] > rows or any(a > b for a, b in pairwise(offsets)):
        raise EvaluationError(
            f"tf.grouped_matmul: offsets {offsets} must start at 0, never fall, and end at no more than the "
            f"{rows} rows of x"
        )
    return offsets


def _evaluate_grouped_matmul(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    x, w, offsets = values
    dtype = ctx.result_type.dtype
    bounds = _checked_offsets(offsets.tolist(), x.shape[0])
    out = torch.zeros(x.shape[0], w.shape[2], device=x.device).to(x.dtype)
    for group, (start, stop) in enumerate(pairwise(bounds)):
        if start < stop:
            out[start:stop] = _product(x[start:stop], w[group], dtype)
    return out


OPS = (
    Op(
        "matmul",
        ("lhs", "rhs"),
        _type_matmul,
        _evaluate_matmul,
        doc="out[..., i, j] = sum over k of lhs[..., i, k] * rhs[..., k, j]; leading axes broadcast",
    ),
    Op(
        "grouped_matmul",
        ("x", "w", "offsets"),
        _type_grouped_matmul,
        _evaluate_grouped_matmul,
        doc="out[i] = x[i] @ w[e] for offsets[e] <= i < offsets[e + 1]; rows past the last offset are 0",
    ),
)
