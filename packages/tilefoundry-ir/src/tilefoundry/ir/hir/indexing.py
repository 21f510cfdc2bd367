"""index_select, index_add, index_copy, cache_update: rows picked or replaced by index values.

An index outside its axis, a negative one included, is an EvaluationError.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilefoundry.ir.core.op import Attr, Op
from tilefoundry.ir.errors import EvaluationError, TypeRuleError
from tilefoundry.ir.hir import attributes
from tilefoundry.ir.hir.arithmetic import require_arithmetic, rounded
from tilefoundry.ir.hir.byteview import moved
from tilefoundry.ir.hir.conversion import decode
from tilefoundry.ir.hir.placement import carried_type, kept_axes
from tilefoundry.ir.hir.rules import (
    normalize_axis,
    require_dtype,
    require_index,
    require_same_dtype,
    require_tensor,
)
from tilefoundry.ir.types import TensorType, Type

# torch is imported where it is first needed: typing programs must not load it.

__all__ = ["OPS"]


def _normalize_dim(op: str, operand: str) -> Any:
    def normalize(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> dict[str, Any]:
        x = require_tensor(op, operand, types[0])
        return {**attrs, "dim": normalize_axis(op, attrs["dim"], x.rank, "dim")}

    return normalize


def _checked_index(op: str, index: Any, extent: int) -> Any:
    """``index`` as int64, after every value was found in ``[0, extent)``."""
    wide = index.long()
    if wide.numel():
        low, high = int(wide.min()), int(wide.max())
        if low < 0 or high >= extent:
            raise EvaluationError(
                f"tf.{op}: the index {low if low < 0 else high} is outside the extent {extent}"
            )
    return wide


def _type_select(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    x, index = (require_tensor("index_select", n, t) for n, t in zip(("x", "index"), types, strict=True))
    require_index("index_select", "index", index)
    dim = attrs["dim"]
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    sources = (*range(dim), *[None] * index.rank, *range(dim + 1, x.rank))
    return carried_type("index_select", shape, x.dtype, (("x", x),), sources)


def _evaluate_select(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    x, index = values
    dim = attrs["dim"]
    flat = _checked_index("index_select", index, x.shape[dim]).reshape(-1)
    shape = (*x.shape[:dim], *index.shape, *x.shape[dim + 1 :])
    return moved(lambda data: data.index_select(dim, flat).reshape(shape), x)


def _type_update(op: str) -> Any:
    def type_update(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
        names = ("dst", "index", "src")
        dst, index, src = (require_tensor(op, n, t) for n, t in zip(names, types, strict=True))
        dtype = require_same_dtype(op, (("dst", dst), ("src", src)))
        require_index(op, "index", index)
        if op == "index_add":
            require_arithmetic(op, "dst", dst)
            require_dtype(op, "dst", dst, not dtype.is_bool, "a number")
        dim, operands = attrs["dim"], (("dst", dst), ("src", src))
        _require_rows(op, dst, index, src, dim)
        return carried_type(op, dst.shape, dtype, operands, kept_axes(dst.rank, dim))

    return type_update


def _require_rows(op: str, dst: TensorType, index: TensorType, src: TensorType, dim: int) -> None:
    if index.rank != 1:
        raise TypeRuleError(f"tf.{op}: index is {index}, rank 1 is needed")
    expected = dst.with_shape((*dst.shape[:dim], *index.shape, *dst.shape[dim + 1 :]))
    if src.shape != expected.shape:
        raise TypeRuleError(
            f"tf.{op}: src is {src}, but {expected} is needed for dst {dst} and index {index}"
        )


def _evaluate_add(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    dst, index, src = values
    dim, dtype = attrs["dim"], ctx.result_type.dtype
    rows = _checked_index("index_add", index, dst.shape[dim])
    if not dtype.is_float:
        return dst.index_add(dim, rows, src)
    return rounded(decode(dst, dtype).index_add(dim, rows, decode(src, dtype)), dtype)


def _evaluate_copy(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    dst, index, src = values
    dim = attrs["dim"]
    rows = _checked_index("index_copy", index, dst.shape[dim])
    return moved(lambda d, s: _copied(d, dim, rows, s), dst, src)


def _copied(dst: Any, dim: int, rows: Any, src: Any) -> Any:
    """``dst`` with rows replaced; of equal indices the last counts, whatever order a device writes in."""
    import torch

    if not rows.numel():
        return dst.clone()
    order = torch.arange(rows.numel(), device=rows.device)
    last = torch.full((dst.shape[dim],), -1, device=rows.device).scatter_reduce(0, rows, order, "amax")
    hit = (last >= 0).reshape([-1 if axis == dim else 1 for axis in range(dst.dim())])
    return torch.where(hit, src.index_select(dim, last.clamp(min=0)), dst)


def _require_position(name: str, type_: TensorType) -> None:
    require_dtype("cache_update", name, type_, type_.dtype.name in ("i32", "i64"), "i32 or i64")
    if any(dim != 1 for dim in type_.shape):
        raise TypeRuleError(f"tf.cache_update: {name} is {type_}; one element is needed")


def _type_cache_update(types: tuple[Type, ...], attrs: Mapping[str, Any]) -> Type:
    names = ("cache", "cur_pos", "s", "new")
    cache, pos, s, new = (require_tensor("cache_update", n, t) for n, t in zip(names, types, strict=True))
    operands = (("cache", cache), ("new", new))
    dtype = require_same_dtype("cache_update", operands)
    _require_position("cur_pos", pos)
    _require_position("s", s)
    if (
        cache.rank != 4
        or new.rank != 4
        or (cache.shape[0], *cache.shape[2:]) != (new.shape[0], *new.shape[2:])
    ):
        raise TypeRuleError(
            f"tf.cache_update: cache is {cache} and new is {new}; both must be [batch, length, heads, dim], "
            "equal but for the length"
        )
    return carried_type("cache_update", cache.shape, dtype, operands, kept_axes(4, 1))


def _evaluate_cache_update(ctx: Any, values: tuple[Any, ...], attrs: Mapping[str, Any]) -> Any:
    cache, pos, s, new = values
    start, count = int(pos), int(s)
    if count < 0 or count > new.shape[1]:
        raise EvaluationError(
            f"tf.cache_update: s = {count} is outside [0, {new.shape[1]}], the length of new"
        )
    if start < 0 or start + count > cache.shape[1]:
        raise EvaluationError(
            f"tf.cache_update: positions [{start}, {start + count}) leave the cache's length {cache.shape[1]}"
        )
    return moved(lambda c, n: _written(c, start, count, n), cache, new)


def _written(cache: Any, start: int, count: int, new: Any) -> Any:
    out = cache.clone()
    out[:, start : start + count] = new[:, :count]
    return out


_DIM = (Attr("dim", 0, attributes.integer),)

OPS = (
    Op(
        "index_select",
        ("x", "index"),
        _type_select,
        _evaluate_select,
        _DIM,
        normalize=_normalize_dim("index_select", "x"),
        doc="out[a, i, b] = x[a, index[i], b] with i over the axes of index, in the place of axis dim of x",
    ),
    Op(
        "index_add",
        ("dst", "index", "src"),
        _type_update("index_add"),
        _evaluate_add,
        _DIM,
        normalize=_normalize_dim("index_add", "dst"),
        doc="dst with src[i] added to row index[i] along dim; equal indices add up, rounded once",
    ),
    Op(
        "index_copy",
        ("dst", "index", "src"),
        _type_update("index_copy"),
        _evaluate_copy,
        _DIM,
        normalize=_normalize_dim("index_copy", "dst"),
        doc="dst with row index[i] along dim replaced by src[i]; of equal indices the last counts",
    ),
    Op(
        "cache_update",
        ("cache", "cur_pos", "s", "new"),
        _type_cache_update,
        _evaluate_cache_update,
        doc="cache with cache[:, cur_pos : cur_pos + s] replaced by new[:, :s]; [batch, length, heads, dim]",
    ),
)
