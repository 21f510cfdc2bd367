"""Buffers of a statement-level program: elements and windows of them."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.extents import is_extent
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.tir.expr import BufferView, Load
from tilefoundry.ir.types import Dim, TensorType, bounds
from tilefoundry.ir.types.dim import product

__all__ = ["Buffer", "element_index", "load", "row_major", "view"]


@dataclass(frozen=True, slots=True)
class Buffer:
    """A parameter or an allocation, as a name in a program.

    Attributes:
        var: name and type; elements lie in row-major order.
    """

    var: Var

    @property
    def type(self) -> TensorType:
        """Extents, dtype and storage."""
        assert isinstance(self.var.type, TensorType)
        return self.var.type

    def whole(self) -> BufferView:
        """The buffer as a view of all of it."""
        return BufferView(self.type, self.var, 0, row_major(self.type.shape))

    def __repr__(self) -> str:
        return f"{self.var.name}: {self.type}"


def row_major(shape: Sequence[Dim]) -> tuple[Dim, ...]:
    """Strides in elements, the last axis fastest."""
    return tuple(product(shape[axis + 1 :]) for axis in range(len(shape)))


def element_index(ctx: BodyContext, node: ast.Subscript, buffer: Buffer) -> Dim:
    """The linear position that ``buffer[i, j]`` names; DslError where that is no single element."""
    windows = _windows(ctx, node, buffer)
    if not all(drop for _, _, drop in windows):
        raise ctx.error(
            node, f"{buffer!r} is stored to one element at a time; give one index per axis, or use T.copy"
        )
    return _offset(windows, row_major(buffer.type.shape))


def load(ctx: BodyContext, node: ast.Subscript, buffer: Buffer) -> Expr:
    """``buffer[...]``: the element where every axis has an index, else a view."""
    windows = _windows(ctx, node, buffer)
    strides = row_major(buffer.type.shape)
    if all(drop for _, _, drop in windows):
        return Load.of(buffer.var, _offset(windows, strides))
    kept = [(size, stride) for (_, size, drop), stride in zip(windows, strides, strict=True) if not drop]
    type_ = buffer.type.with_shape(tuple(size for size, _ in kept))
    return BufferView(type_, buffer.var, _offset(windows, strides), tuple(stride for _, stride in kept))


def view(ctx: BodyContext, node: ast.AST, value: Any) -> BufferView:
    """A buffer or a view as a view; DslError for anything else."""
    if isinstance(value, Buffer):
        return value.whole()
    if isinstance(value, BufferView):
        return value
    raise ctx.error(node, f"a buffer or a window of one is needed here, got {describe(value)}")


_Window = tuple[Dim, Dim, bool]


def _windows(ctx: BodyContext, node: ast.Subscript, buffer: Buffer) -> list[_Window]:
    """(start, size, whether the axis disappears) per axis."""
    entries = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    shape = buffer.type.shape
    if len(entries) > len(shape):
        raise ctx.error(node, f"{len(entries)} indices for {buffer!r}, which has rank {len(shape)}")
    given = [_window(ctx, entry, extent) for entry, extent in zip(entries, shape, strict=False)]
    windows = [*given, *((0, extent, False) for extent in shape[len(entries) :])]
    _check_inside(ctx, node, buffer, windows)
    return windows


def _check_inside(ctx: BodyContext, node: ast.Subscript, buffer: Buffer, windows: Sequence[_Window]) -> None:
    """DslError where a window's last element lies behind the buffer for every value of the dims.

    What does so for some values is the author's to keep. A position may pass its own axis: canonical text names
    ``x[i, 7]`` for the element that another spells ``x[i + 1, 3]``.
    """
    if any(bounds(size)[0] < 1 for _, size, _ in windows):
        return
    ends = [(start + size - 1, size, drop) for start, size, drop in windows]
    last = _offset(ends, row_major(buffer.type.shape))
    if bounds(buffer.type.size - 1 - last)[1] < 0:
        given = ast.unparse(node.slice)
        raise ctx.error(
            node, f"[{given}] reaches element number {last} of {buffer!r}, which has {buffer.type.size}"
        )


def _window(ctx: BodyContext, entry: ast.expr, extent: Dim) -> _Window:
    if not isinstance(entry, ast.Slice):
        return _position(ctx, entry), 1, True
    if entry.step is not None:
        raise ctx.error(entry, "a window of a buffer has the step 1")
    start = 0 if entry.lower is None else _position(ctx, entry.lower)
    stop = extent if entry.upper is None else _position(ctx, entry.upper)
    if bounds(stop - start)[1] < 0:
        raise ctx.error(entry, f"the window [{start}, {stop}) ends before it starts")
    return start, stop - start, False


def _position(ctx: BodyContext, node: ast.expr) -> Dim:
    value = ctx.read(node)
    if is_value(value) or not (is_extent(value) or (isinstance(value, int) and not isinstance(value, bool))):
        raise ctx.error(node, f"an index is an int, a loop variable or an extent, got {describe(value)}")
    if bounds(value)[1] < 0:
        raise ctx.error(node, f"an index counts from the start of its axis, got {value}")
    ctx.check_dim(value, node)
    return value


def _offset(windows: Sequence[_Window], strides: Sequence[Dim]) -> Dim:
    total: Dim = 0
    for (start, _, _), stride in zip(windows, strides, strict=True):
        total = total + start * stride
    return total
