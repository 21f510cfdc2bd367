"""``x[...]``: windows of tensors, items of Python objects."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.extents import is_extent
from tilefoundry.dsl.ops import call_op
from tilefoundry.dsl.ranges import TileWindow
from tilefoundry.ir.core.expr import Expr
from tilefoundry.ir.types import Dim, TensorType, TupleType, bounds
from tilefoundry.ir.types.dim import ceildiv

__all__ = ["SUBSCRIPTS"]

# What may sit inside Tensor[...]: it is read as Python, slices and all.
_Index = Any


@dataclass(frozen=True, slots=True)
class _Window:
    """One axis of a slice.

    Attributes:
        start: a dim, or a rank-0 integer value.
        size: how many elements.
        stride: distance between them.
        drop: True where the axis disappears.
    """

    start: Dim | Expr
    size: Dim
    stride: int = 1
    drop: bool = False


def _read_subscript(ctx: BodyContext, node: ast.Subscript, hint: str | None) -> Any:
    base = ctx.read(node.value)
    if not is_value(base):
        key = _python_key(ctx, node.slice)
        with ctx.pointing_at(node):
            return _python_item(base, key)
    if isinstance(base.type, TupleType):
        return _item(ctx, node, base, hint)
    entries = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    windows = _windows(ctx, node, base, list(entries))
    return _slice(ctx, node, base, windows, hint)


def _python_key(ctx: BodyContext, node: ast.expr) -> Any:
    """An index into a Python object; ``a:b`` is a slice, as the sub-mesh ``m[0:2, :]`` needs it."""
    if isinstance(node, ast.Slice):
        parts = (node.lower, node.upper, node.step)
        return slice(
            *(None if part is None else ctx.read_static(part, "a bound of a slice") for part in parts)
        )
    if isinstance(node, ast.Tuple) and any(isinstance(part, ast.Slice) for part in node.elts):
        return tuple(_python_key(ctx, part) for part in node.elts)
    return ctx.read_static(node, "an index into a Python object")


def _python_item(base: Any, key: Any) -> Any:
    if not hasattr(type(base), "__getitem__") and not hasattr(base, "__class_getitem__"):
        raise TypeError(f"{describe(base)} has no items")
    return base[key]


def _item(ctx: BodyContext, node: ast.Subscript, base: Any, hint: str | None) -> Any:
    index = ctx.read_static(node.slice, "the index into a tuple")
    count = len(base.type.elements)
    if isinstance(index, bool) or not isinstance(index, int) or not -count <= index < count:
        raise ctx.error(node.slice, f"{describe(base)} has the items 0..{count - 1}, got {describe(index)}")
    return call_op(ctx, node, "tuple_get_item", (base, index % count), {}, hint)


def _windows(ctx: BodyContext, node: ast.Subscript, base: Any, entries: list[ast.expr]) -> list[_Window]:
    shape = base.type.shape
    ellipses = [
        i for i, entry in enumerate(entries) if isinstance(entry, ast.Constant) and entry.value is Ellipsis
    ]
    if len(ellipses) > 1:
        raise ctx.error(node, "one ... at most in an index")
    if len(entries) - len(ellipses) > len(shape):
        raise ctx.error(
            node, f"{len(entries) - len(ellipses)} indices for {describe(base)}, which has rank {len(shape)}"
        )
    if not ellipses:
        entries = [*entries, ast.Constant(Ellipsis)]
        ellipses = [len(entries) - 1]
    before, after = entries[: ellipses[0]], entries[ellipses[0] + 1 :]
    rest = len(shape) - len(before) - len(after)
    filled: list[ast.expr | None] = [*before, *[None] * rest, *after]
    return [_window(ctx, entry, axis, base.type) for axis, entry in enumerate(filled)]


def _window(ctx: BodyContext, entry: ast.expr | None, axis: int, type_: TensorType) -> _Window:
    extent = type_.shape[axis]
    if entry is None:
        return _Window(0, extent)
    if isinstance(entry, ast.Slice):
        return _slice_window(ctx, entry, axis, extent)
    value = _index_value(ctx, entry)
    if isinstance(value, TileWindow):
        return _tile_window(ctx, entry, value, axis, extent)
    if is_value(value):
        return _Window(_scalar_start(ctx, entry, value), 1, drop=True)
    start = _static_position(ctx, entry, value, axis, extent)
    return _Window(start, 1, drop=True)


def _slice_window(ctx: BodyContext, entry: ast.Slice, axis: int, extent: Dim) -> _Window:
    stride = _stride(ctx, entry)
    lower = None if entry.lower is None else _index_value(ctx, entry.lower)
    if is_value(lower):
        if stride != 1:
            raise ctx.error(entry, "a window with a dynamic start has the step 1")
        return _Window(_scalar_start(ctx, entry, lower), _window_size(ctx, entry))
    start = 0 if lower is None else _bound(ctx, entry.lower, lower, axis, extent)
    upper = None if entry.upper is None else _index_value(ctx, entry.upper)
    if is_value(upper):
        raise ctx.error(
            entry, "the end of a slice must be an extent; with a dynamic start write x[p : p + size]"
        )
    stop = extent if upper is None else _bound(ctx, entry.upper, upper, axis, extent)
    size = stop - start if stride == 1 else ceildiv(stop - start, stride)
    if bounds(size)[1] < 0:
        size = 0
    return _Window(start, size, stride)


def _index_value(ctx: BodyContext, node: ast.expr) -> Any:
    value = ctx.read(node)
    return int(value) if isinstance(value, Integral) and not isinstance(value, bool) else value


def _stride(ctx: BodyContext, entry: ast.Slice) -> int:
    if entry.step is None:
        return 1
    step = ctx.read_static(entry.step, "the step of a slice")
    if step is None:
        return 1
    if isinstance(step, bool) or not isinstance(step, int) or step < 1:
        raise ctx.error(entry.step, f"the step of a slice is an int of at least 1, got {describe(step)}")
    return step


def _window_size(ctx: BodyContext, entry: ast.Slice) -> Dim:
    """The size in ``p : p + size``, where ``p`` is only known at run time."""
    upper = entry.upper
    assert entry.lower is not None
    if isinstance(upper, ast.BinOp) and isinstance(upper.op, ast.Add):
        for same, size in ((upper.left, upper.right), (upper.right, upper.left)):
            if ast.dump(same) == ast.dump(entry.lower):
                return _size(ctx, size)
    raise ctx.error(entry, "a dynamic start needs a static window: write x[p : p + size]")


def _size(ctx: BodyContext, node: ast.expr) -> Dim:
    size = ctx.read_static(node, "the size of a window")
    if is_extent(size) or (isinstance(size, int) and not isinstance(size, bool) and size >= 0):
        return size
    raise ctx.error(node, f"the size of a window is an extent, got {describe(size)}")


def _scalar_start(ctx: BodyContext, node: ast.AST, value: Any) -> Expr:
    type_ = value.type
    if not isinstance(type_, TensorType) or type_.rank or not type_.dtype.is_integer:
        raise ctx.error(
            node,
            f"an index is a rank-0 integer tensor, got {describe(value)}; to gather rows use tf.index_select",
        )
    return value


def _tile_window(ctx: BodyContext, entry: ast.expr, window: TileWindow, axis: int, extent: Dim) -> _Window:
    if extent != window.loop.stop:
        raise ctx.error(entry, f"{window} runs over {window.loop.stop}, axis {axis} has the extent {extent}")
    return _Window(window.start, window.extent)


def _bound(ctx: BodyContext, node: ast.AST | None, value: Any, axis: int, extent: Dim) -> Dim:
    """A slice bound as Python means it: negative from the end, clipped to a static extent."""
    assert node is not None
    if isinstance(value, TileWindow):
        value = value.start
    if is_extent(value):
        ctx.check_dim(value, node)
        return extent + value if bounds(value)[1] < 0 else value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ctx.error(node, f"a slice bound is an int or an extent, got {describe(value)}")
    if value < 0:
        return max(0, extent + value) if isinstance(extent, int) else extent + value
    return min(value, extent) if isinstance(extent, int) else value


def _static_position(ctx: BodyContext, node: ast.AST, value: Any, axis: int, extent: Dim) -> Dim:
    if is_extent(value):
        ctx.check_dim(value, node)
        return value
    if isinstance(value, bool) or not isinstance(value, int):
        raise ctx.error(
            node, f"an index is an int, a slice, a loop variable or an extent, got {describe(value)}"
        )
    position = extent + value if value < 0 else value
    if isinstance(extent, int) and isinstance(position, int) and not 0 <= position < extent:
        raise ctx.error(node, f"index {value} is out of range for axis {axis} of extent {extent}")
    return position


def _slice(ctx: BodyContext, node: ast.AST, base: Any, windows: Sequence[_Window], hint: str | None) -> Any:
    type_: TensorType = base.type
    whole = all(
        w.start == 0 and w.size == extent and w.stride == 1 and not w.drop
        for w, extent in zip(windows, type_.shape, strict=True)
    )
    if whole:
        return base
    kept = tuple(w.size for w in windows if not w.drop)
    starts = tuple(w.start for w in windows)
    attrs = {"sizes": tuple(w.size for w in windows)}
    if any(w.stride != 1 for w in windows):
        attrs["strides"] = tuple(w.stride for w in windows)
    dropped = len(kept) < len(windows)
    sliced = call_op(ctx, node, "slice", (base, starts), attrs, None if dropped else hint)
    if not dropped:
        return sliced
    return call_op(ctx, node, "reshape", (sliced, kept), {}, hint)


SUBSCRIPTS = {ast.Subscript: _read_subscript}
