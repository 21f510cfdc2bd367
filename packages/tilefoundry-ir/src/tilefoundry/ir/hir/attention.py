"""attention: scaled dot products, masked, capped, softmax, weighted sum; in f32 (f64 for f64), rounded once.

Query ``i`` of ``S`` stands at position ``L - S + i``, where ``L`` is ``kv_len`` or the number of keys: the
last query sees the last key. A query that sees no key gives zeros.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.arithmetic import product, require_arithmetic, rounded
from tilefoundry.ir.hir.conversion import decode
from tilefoundry.ir.hir.placement import fresh_type
from tilefoundry.ir.hir.rules import require_dtype, require_index, require_same_dtype, require_tensor
from tilefoundry.ir.types import TensorType, Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]

_CHUNK = 2**26
"""Most scores held at once, so that long sequences evaluate in bounded memory."""


def _normalize_attention(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
    q = require_tensor("attention", "q", types[0])
    if attrs["scale"] is not None:
        return dict(attrs)
    if q.rank != 4 or not isinstance(q.shape[3], int) or not q.shape[3]:
        raise TypeRuleError(
            f"tf.attention: q is {q}; give scale=, the default 1 / sqrt(dim) needs a static dim"
        )
    return {**attrs, "scale": 1.0 / sqrt(q.shape[3])}


def _type_attention(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    names = ("q", "k", "v", "kv_len")
    q, k, v, *kv_len = (require_tensor("attention", n, t) for n, t in zip(names, types, strict=False))
    operands = (("q", q), ("k", k), ("v", v))
    dtype = require_same_dtype("attention", operands)
    require_arithmetic("attention", "q", q)
    require_dtype("attention", "q", q, dtype.is_float, "a float")
    _require_shapes(q, k, v)
    if kv_len:
        require_index("attention", "kv_len", kv_len[0])
        if kv_len[0].shape not in ((), (1,), q.shape[:1]):
            raise TypeRuleError(
                f"tf.attention: kv_len is {kv_len[0]}; a scalar or [{q.shape[0]}] is needed for q {q}"
            )
    if attrs["window"] is not None and not attrs["causal"]:
        raise TypeRuleError(
            "tf.attention: window= counts keys back from the query's position; it needs causal=True"
        )
    return fresh_type("attention", (*q.shape[:3], v.shape[3]), dtype, operands)


def _require_shapes(q: TensorType, k: TensorType, v: TensorType) -> None:
    if not q.rank == k.rank == v.rank == 4:
        raise TypeRuleError(f"tf.attention: q {q}, k {k}, v {v} must all be [batch, heads, length, dim]")
    if k.shape[:3] != v.shape[:3] or q.shape[0] != k.shape[0] or q.shape[3] != k.shape[3]:
        raise TypeRuleError(
            f"tf.attention: q {q}, k {k} and v {v} do not fit: all need one batch, q and k one dim, "
            "k and v one number of heads and one length"
        )
    heads, shared = q.shape[1], k.shape[1]
    static = isinstance(heads, int) and isinstance(shared, int)
    if heads != shared and not (static and shared and heads % shared == 0):  # type: ignore[operator]  # both are ints where static
        raise TypeRuleError(
            f"tf.attention: the {heads} heads of q are no multiple of the {shared} heads of k and v"
        )


def _evaluate_attention(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    import torch

    dtype = ctx.result_type.dtype
    q, k, v = (decode(value, dtype) for value in values[:3])
    out = torch.zeros(*q.shape[:3], v.shape[3], dtype=q.dtype, device=q.device)
    if not out.numel():
        return rounded(out, dtype)
    for batch, length in enumerate(_lengths(values[3:], q.shape[0], k.shape[2])):
        for queries, keys in _head_chunks(q.shape, k.shape[1], length):
            out[batch, queries] = _attend(
                q[batch, queries], k[batch, keys, :length], v[batch, keys, :length], attrs
            )
    return rounded(out, dtype)


def _lengths(kv_len: tuple[Any, ...], batch: int, keys: int) -> list[int]:
    lengths = kv_len[0].reshape(-1).tolist() if kv_len else [keys]
    for length in lengths:
        if not 0 <= length <= keys:
            raise EvaluationError(
                f"tf.attention: kv_len = {length} is outside [0, {keys}], the length of k and v"
            )
    return lengths * batch if len(lengths) == 1 else lengths


def _head_chunks(shape: Any, shared: int, length: int) -> Iterator[tuple[slice, slice]]:
    """Slices of query heads and of the key heads that they share, small enough to hold their scores."""
    per = shape[1] // shared
    step = max(1, _CHUNK // max(1, per * shape[2] * length))
    for first in range(0, shared, step):
        last = min(first + step, shared)
        yield slice(first * per, last * per), slice(first, last)


def _attend(q: Any, k: Any, v: Any, attrs: Mapping[str, Any]) -> Any:
    """One batch row: q[heads, S, D], k[shared, L, D], v[shared, L, DV]."""
    import torch

    per = q.shape[0] // k.shape[0]
    scores = product(q.unflatten(0, (k.shape[0], per)), k.unsqueeze(1).transpose(-1, -2)) * attrs["scale"]
    if attrs["softcap"] is not None:
        scores = torch.tanh(scores / attrs["softcap"]) * attrs["softcap"]
    visible = _visible(q.shape[1], k.shape[1], attrs, q.device)
    weights = torch.softmax(scores.masked_fill(~visible, float("-inf")), dim=-1)
    # A row without a visible key is 0 / 0.
    weights = weights.masked_fill(~visible.any(dim=-1, keepdim=True), 0.0)
    return product(weights, v.unsqueeze(1)).flatten(0, 1)


def _visible(queries: int, keys: int, attrs: Mapping[str, Any], device: Any) -> Any:
    import torch

    key = torch.arange(keys, device=device)
    position = torch.arange(queries, device=device).unsqueeze(1) + (keys - queries)
    if not attrs["causal"]:
        return torch.ones(queries, keys, dtype=torch.bool, device=device)
    seen = key <= position
    return seen if attrs["window"] is None else seen & (key > position - attrs["window"])


def _positive_real(value: Any) -> float:
    number = attributes.real(value)
    if not number > 0:
        raise ValueError(f"a number above 0 is needed, got {number}")
    return number


OPS = (
    Op(
        "attention",
        ("q", "k", "v", "kv_len"),
        _type_attention,
        _evaluate_attention,
        (
            Attr("scale", None, attributes.optional(attributes.real)),
            Attr("causal", False, attributes.boolean),
            Attr("window", None, attributes.optional(attributes.positive)),
            Attr("softcap", None, attributes.optional(_positive_real)),
        ),
        optional=1,
        normalize=_normalize_attention,
        doc="softmax(mask(cap(q @ k.T * scale))) @ v per head, over the first kv_len keys; "
        "cap(s) = softcap * tanh(s / softcap); causal hides keys after the query's position, window those "
        "window or more before it; scale is 1 / sqrt(dim) by default",
    ),
)
