"""rope: rotary position embedding of queries and keys; computed in f32 (f64 for f64) and rounded once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir.arithmetic import require_arithmetic, rounded
from tilefoundry.ir.hir.conversion import decode
from tilefoundry.ir.hir.placement import elementwise_type
from tilefoundry.ir.hir.rules import require_dtype, require_index, require_same_dtype, require_tensor
from tilefoundry.ir.types import DType, TensorType, TupleType, Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]

_NAMES = ("q", "k", "cos_cache", "sin_cache", "pos_ids")


def _type_rope(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    q, k, cos, sin, pos = (require_tensor("rope", n, t) for n, t in zip(_NAMES, types, strict=True))
    dtype = require_same_dtype("rope", (("q", q), ("k", k)))
    require_arithmetic("rope", "q", q)
    require_dtype("rope", "q", q, dtype.is_float, "a float")
    table = require_same_dtype("rope", (("cos_cache", cos), ("sin_cache", sin)))
    require_dtype("rope", "cos_cache", cos, table in (dtype, DType.f32), f"{dtype} or f32")
    require_index("rope", "pos_ids", pos)
    _require_shapes(q, k, cos, sin, pos)
    return TupleType(
        tuple(elementwise_type("rope", t.shape, dtype, ((n, t),)) for n, t in (("q", q), ("k", k)))
    )


def _require_shapes(q: TensorType, k: TensorType, cos: TensorType, sin: TensorType, pos: TensorType) -> None:
    if q.rank != 4 or k.rank != 4 or (*q.shape[:2], q.shape[3]) != (*k.shape[:2], k.shape[3]):
        raise TypeRuleError(
            f"tf.rope: q is {q} and k {k}; both must be [batch, length, heads, dim], equal but for heads"
        )
    batch, length, dim = q.shape[0], q.shape[1], q.shape[3]
    if (dim % 2) != 0:
        raise TypeRuleError(f"tf.rope: q is {q}; its last axis must be even in every case")
    if cos.rank != 2 or cos.shape != sin.shape or cos.shape[1] != dim:
        raise TypeRuleError(
            f"tf.rope: cos_cache is {cos} and sin_cache {sin}; both must be [positions, {dim}]"
        )
    if pos.shape not in ((length,), (1, length), (batch, length)):
        raise TypeRuleError(
            f"tf.rope: pos_ids is {pos}; [{length}] or [{batch}, {length}] is needed for q {q}"
        )


def _evaluate_rope(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    q, k, cos, sin, pos = values
    dtype, table = ctx.operand_types[0].dtype, ctx.operand_types[2].dtype
    rows = pos.long() if pos.dim() == 2 else pos.long().unsqueeze(0)
    if rows.numel() and not 0 <= int(rows.min()) <= int(rows.max()) < cos.shape[0]:
        raise EvaluationError(
            f"tf.rope: positions {int(rows.min())} to {int(rows.max())} leave the {cos.shape[0]} cache rows"
        )
    cosine, sine = (decode(t, table)[rows].unsqueeze(2) for t in (cos, sin))
    return tuple(_rotated(decode(x, dtype), cosine, sine, dtype) for x in (q, k))


def _rotated(x: Any, cosine: Any, sine: Any, dtype: DType) -> Any:
    import torch

    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), dim=-1)
    return rounded(x * cosine.to(x.dtype) + turned * sine.to(x.dtype), dtype)


OPS = (
    Op(
        "rope",
        _NAMES,
        _type_rope,
        _evaluate_rope,
        doc="(q, k), each x * cos + rotate_half(x) * sin with the cache rows of pos_ids, rotate_half(x) = "
        "concat(-second half, first half) of the last axis; q and k are [batch, length, heads, dim]",
    ),
)
