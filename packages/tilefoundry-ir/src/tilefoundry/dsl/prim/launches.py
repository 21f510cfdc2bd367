"""``T.launch``: start a kernel of the module on a grid of blocks."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

from tilefoundry.dsl.children import ChildRef, FunctionRef, entry_of
from tilefoundry.dsl.context import describe
from tilefoundry.dsl.extents import is_extent
from tilefoundry.dsl.prim.buffers import row_major, view
from tilefoundry.dsl.prim.context import PrimContext
from tilefoundry.ir.core.expr import Expr, Var
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.tir import BufferView, IndexValue, Launch, PrimFunction, checked_launch_attributes
from tilefoundry.ir.types import Dim, DimVar, TensorType, bounds, substitute, type_dim_vars

__all__ = ["launch"]


def launch(
    ctx: PrimContext,
    node: ast.AST,
    callee: Any,
    *args: Any,
    grid: Any = (),
    block: Any = (),
    **attributes: Any,
) -> Launch:
    """``T.launch(kernel, *buffers, grid=, block=, cooperative=, cluster=, programmatic=)``.

    Raises:
        TypeError: a callee that this module does not hold, buffers that its parameters do not take, or
            attributes that there are not.
    """
    function, path = _callee(ctx, callee)
    given = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
    if len(given) != len(function.params):
        names = ", ".join(p.name for p in function.params)
        raise TypeError(f"{function.name} takes {len(function.params)} buffers ({names}), got {len(given)}")
    ctx.outputs[path] = function.output_count
    buffers = [
        _launched(ctx, node, param, value) for param, value in zip(function.params, given, strict=True)
    ]
    extents = _extents(function, buffers)
    shapes = (_geometry(ctx, node, "grid", grid), _geometry(ctx, node, "block", block))
    return Launch(path, (*buffers, *extents), *shapes, checked_launch_attributes(attributes, shapes[0]))


def _callee(ctx: PrimContext, callee: Any) -> tuple[PrimFunction, str]:
    """The kernel and how the module that is being defined reaches it: its name, or ``child.function``."""
    if isinstance(callee, PrimFunction):
        members = ctx.enclosure.members
        if members is None or members.get(callee.name) is not callee:
            raise TypeError(
                f"T.launch starts a @prim_func of its own module, and {callee.name} is defined outside; put both "
                "into one @module class"
            )
        return callee, callee.name
    if isinstance(callee, (Module, ChildRef)):
        callee = entry_of(ctx, callee)
    if not isinstance(callee, FunctionRef) or not isinstance(callee.function, PrimFunction):
        what = ".".join(callee.path) + ", a @func" if isinstance(callee, FunctionRef) else describe(callee)
        raise TypeError(f"T.launch starts a @prim_func, got {what}")
    return callee.function, ".".join(callee.path)


def _launched(ctx: PrimContext, node: ast.AST, param: Var, value: Any) -> BufferView:
    given = view(ctx, node, value)
    want, have = param.type, given.type
    assert isinstance(want, TensorType) and isinstance(have, TensorType)
    if want.dtype is not have.dtype or want.rank != have.rank:
        raise TypeError(f"{param.name} is {want}, got {have}")
    dense = zip(have.shape, given.strides, row_major(have.shape), strict=True)
    if any(extent != 1 and stride != wanted for extent, stride, wanted in dense):
        raise TypeError(
            f"{param.name} takes a dense buffer, got a window of {given.buffer.name} with the strides "
            f"({', '.join(map(str, given.strides))}); T.copy it into a buffer of its own first"
        )
    return given


def _extents(callee: PrimFunction, given: Sequence[BufferView]) -> tuple[Expr, ...]:
    """The values of the callee's extents, in order of first appearance, read off the buffers given."""
    found: dict[str, Dim] = {}
    pairs = [
        (param, want, have)
        for param, value in zip(callee.params, given, strict=True)
        for want, have in zip(param.type.shape, value.type.shape, strict=True)  # type: ignore[attr-defined]  # tensors
    ]
    for param, want, have in pairs:
        if isinstance(want, DimVar):
            _bind(callee, param, want, have, found)
    wanted = dict.fromkeys(var for param in callee.params for var in type_dim_vars(param.type))
    missing = [var.name for var in wanted if var.name not in found]
    if missing:
        raise TypeError(f"{callee.name}: no buffer's extent is {', '.join(missing)} alone")
    for param, want, have in pairs:
        expected = want if isinstance(want, int) else substitute(want, found)
        if expected != have:
            raise TypeError(
                f"{callee.name}: {param.name} is {param.type}, got the extent {have} where {expected} is expected"
            )
    return tuple(IndexValue.of(found[var.name]) for var in wanted)


def _bind(callee: PrimFunction, param: Var, var: DimVar, extent: Dim, found: dict[str, Dim]) -> None:
    known = found.setdefault(var.name, extent)
    if known != extent:
        raise TypeError(f"{callee.name}: {param.name} makes {var} = {extent}, a buffer before it {known}")
    low, high = bounds(extent)
    if low < var.lo or high >= var.hi:
        raise TypeError(
            f"{callee.name}: {param.name} makes {var} = {extent}, which lies in [{low}, {high + 1}), but {var} is "
            f"declared [{var.lo}, {var.hi}) there; make the ranges agree"
        )


def _geometry(ctx: PrimContext, node: ast.AST, name: str, given: Any) -> tuple[Dim, ...]:
    extents = tuple(given) if isinstance(given, (tuple, list)) else (given,)
    for extent in extents:
        if not (
            is_extent(extent) or (isinstance(extent, int) and not isinstance(extent, bool) and extent > 0)
        ):
            raise TypeError(f"{name}= takes positive extents, got {describe(extent)}")
        ctx.check_dim(extent, node)
    return extents
