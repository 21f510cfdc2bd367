"""Spell attention and quant out in matmuls, reductions and elementwise ops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tilefoundry.ir.core.expr import Atom, Call
from tilefoundry.ir.hir import QUANT_LIMITS
from tilefoundry.ir.types import Dim, TensorType

if TYPE_CHECKING:
    from tilefoundry.codegen.cpu.decompose import Decomposer

__all__ = ["attention", "quant"]

_LEAST_MAXIMUM = 1e-10


def attention(to: Decomposer, call: Call, args: tuple[Atom, ...]) -> Atom:
    """The plain formula over all keys; heads that share keys sit on an axis of their own."""
    q, k, v = args[:3]
    batch, heads, queries, dim = _shape(q)
    shared, keys, width = *_shape(k)[1:3], _shape(v)[3]
    if keys == 0:
        # Nobody sees a key; a maximum over none has no value.
        assert isinstance(q.type, TensorType)
        return to.emit("zeros", type=TensorType((batch, heads, queries, width), q.type.dtype))
    per = 1 if heads == shared else heads // shared  # type: ignore[operator]  # static where they differ
    grouped = to.emit("reshape", q, name="query", new_shape=(batch, shared, per, queries, dim))
    key = to.emit(
        "reshape",
        to.emit("transpose", k, name="key", perm=(0, 1, 3, 2)),
        name="key",
        new_shape=(batch, shared, 1, dim, keys),
    )
    scores = to.emit(
        "mul",
        to.emit("matmul", grouped, key, name="products"),
        to.constant(q, call.attr("scale")),
        name="scores",
    )
    if call.attr("softcap") is not None:
        cap = to.constant(q, call.attr("softcap"))
        scores = to.emit(
            "mul",
            to.emit("tanh", to.emit("div", scores, cap, name="capped"), name="capped"),
            cap,
            name="capped",
        )
    visible = _visible(to, call, args[3] if len(args) > 3 else None, queries, keys)
    if visible is not None:
        scores = to.emit("where", visible, scores, to.constant(q, float("-inf")), name="masked")
    weights = _weights(to, scores, masked=visible is not None)
    value = to.emit("reshape", v, name="value", new_shape=(batch, shared, 1, keys, width))
    mixed = to.emit("matmul", weights, value, name="mixed")
    return to.emit("reshape", mixed, new_shape=(batch, heads, queries, width))


def _weights(to: Decomposer, scores: Atom, *, masked: bool) -> Atom:
    """Softmax over the last axis; a row in which nothing is visible gives zeros."""
    top = to.emit("reduce", scores, name="row_max", axes=(-1,), keepdim=True, kind="max")
    if masked:
        none = to.emit("cmp_eq", top, to.constant(scores, float("-inf")), name="none_visible")
        top = to.emit("where", none, to.constant(scores, 0.0), top, name="row_max")
    weight = to.emit("exp", to.emit("sub", scores, top, name="shifted"), name="weight")
    total = to.emit("reduce", weight, name="row_sum", axes=(-1,), keepdim=True, kind="sum")
    if masked:
        none = to.emit("cmp_eq", total, to.constant(scores, 0.0), name="none_visible")
        total = to.emit("where", none, to.constant(scores, 1.0), total, name="row_sum")
    return to.emit("div", weight, total, name="weights")


def _visible(to: Decomposer, call: Call, length: Atom | None, queries: Dim, keys: Dim) -> Atom | None:
    """Which key each query sees, as a bool that broadcasts to [batch, heads, per, queries, keys]."""
    if length is None and not call.attr("causal"):
        return None
    key = to.emit("arange", name="key_position", end=keys)
    if length is None:
        position = to.emit("arange", name="query_position", end=keys, start=keys - queries)
        position = to.emit("reshape", position, name="query_position", new_shape=(queries, 1))
        return _causal(to, call, key, position)
    wide = to.emit("cast", length, name="kv_len", dtype="i64")
    size = wide.type.size if isinstance(wide.type, TensorType) else 1
    wide = to.emit("reshape", wide, name="kv_len", new_shape=(size, 1, 1, 1, 1))
    inside = to.emit("cmp_lt", key, wide, name="inside")
    if not call.attr("causal"):
        return inside
    offset = to.emit(
        "reshape",
        to.emit("arange", name="query_position", end=queries),
        name="query_position",
        new_shape=(queries, 1),
    )
    start = to.emit(
        "sub", wide, to.emit("reshape", _count(to, queries), name="queries", new_shape=()), name="first"
    )
    seen = _causal(to, call, key, to.emit("add", offset, start, name="query_position"))
    return to.emit("logical_and", inside, seen, name="visible")


def _count(to: Decomposer, count: Dim) -> Atom:
    """``count`` as a rank-1 tensor of one element."""
    return to.emit("arange", name="count", end=count + 1, start=count)


def _causal(to: Decomposer, call: Call, key: Atom, position: Atom) -> Atom:
    seen = to.emit("cmp_le", key, position, name="seen")
    window = call.attr("window")
    if window is None:
        return seen
    first = to.emit("sub", position, to.constant(position, window), name="window_start")
    return to.emit("logical_and", seen, to.emit("cmp_gt", key, first, name="near"), name="seen")


def quant(to: Decomposer, call: Call, args: tuple[Atom, ...]) -> tuple[Atom, ...]:
    """(codes, scales) per group of the last axis."""
    (x,) = args
    target, group = call.attr("target_dtype"), call.attr("group")
    limit = QUANT_LIMITS[target]
    *lead, last = _shape(x)
    groups = to.emit("reshape", x, name="groups", new_shape=(*lead, last // group, group))  # type: ignore[operator]  # a dim
    top = to.emit("reduce", groups, name="group_max", axes=(-1,), keepdim=True, kind="absmax")
    top = to.emit("clamp", top, name="group_max", min_val=_LEAST_MAXIMUM)
    scale = to.emit("div", top, to.constant(x, limit), name="scale")
    scaled = to.emit(
        "clamp", to.emit("div", groups, scale, name="scaled"), name="scaled", min_val=-limit, max_val=limit
    )
    if target.is_integer:
        scaled = to.emit("round", scaled, name="scaled")
    codes = to.emit("cast", scaled, name="codes", dtype=target)
    return (
        to.emit("reshape", codes, name="codes", new_shape=(*lead, last)),
        to.emit("reshape", scale, name="scales", new_shape=(*lead, last // group)),  # type: ignore[operator]  # a dim
    )


def _shape(atom: Atom) -> tuple[Dim, ...]:
    assert isinstance(atom.type, TensorType)
    return atom.type.shape
