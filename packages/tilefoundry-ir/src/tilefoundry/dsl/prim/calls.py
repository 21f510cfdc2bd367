"""Calls in a statement-level program."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from inspect import Parameter, Signature
from typing import Any

from tilefoundry.dsl.annotations import TensorAnnotation
from tilefoundry.dsl.calls import call_python, read_arguments
from tilefoundry.dsl.context import describe, is_value
from tilefoundry.dsl.ops import OpRef
from tilefoundry.dsl.prim.buffers import Buffer, view
from tilefoundry.dsl.prim.context import PrimContext
from tilefoundry.dsl.prim.launches import launch
from tilefoundry.dsl.prim.refs import PrimOpRef
from tilefoundry.dsl.prim.scalars import apply_scalar, scalar_of
from tilefoundry.dsl.prim.tile_ops import TILE_SIGNATURES, evaluate_tile_op
from tilefoundry.dsl.prim.tiles import TILE_CALLS
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.kinds import ReduceKind, kind_from_name
from tilefoundry.ir.tir.expr import BufferView
from tilefoundry.ir.tir.ops import SCALAR_OPS
from tilefoundry.ir.tir.stmt import Abort
from tilefoundry.ir.types import Dim, DType, TensorType, bounds
from tilefoundry.ir.types.written import as_entries

__all__ = ["PRIM_CALLS", "Allocation", "Joining", "LoopOver"]


@dataclass(frozen=True, slots=True)
class Allocation:
    """``T.alloc_tensor(Tensor[...])`` before it has a name."""

    type: TensorType


@dataclass(frozen=True, slots=True)
class Joining:
    """``T.accumulator(kind, dtype)`` before it has a name."""

    kind: ReduceKind
    dtype: DType


@dataclass(frozen=True, slots=True)
class LoopOver:
    """``T.vectorized(stop)`` or ``T.parallel(extent, cost)``."""

    kind: str
    extent: Dim
    cost: Dim = 1


def _read_call(ctx: PrimContext, node: ast.Call, hint: str | None) -> Any:
    callee = ctx.read(node.func)
    args, kwargs = read_arguments(ctx, node)
    if isinstance(callee, PrimOpRef):
        return _call_ref(ctx, node, callee.name, args, kwargs)
    if isinstance(callee, OpRef):
        return apply_scalar(ctx, node, callee.op.name, args, kwargs, hint)
    return call_python(ctx, node, callee, args, kwargs)


def _call_ref(ctx: PrimContext, node: ast.Call, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
    special = _SPECIAL.get(name)
    with ctx.pointing_at(node):
        if special is not None:
            _check_arguments(name, special, args, kwargs)
            return special(ctx, node, *args, **kwargs)
    on_buffers = any(isinstance(value, (Buffer, BufferView)) for value in (*args, *kwargs.values()))
    if name in SCALAR_OPS and not (on_buffers and name in TILE_SIGNATURES):
        return apply_scalar(ctx, node, name, args, kwargs, None)
    return evaluate_tile_op(ctx, node, name, args, kwargs)


def _check_arguments(name: str, special: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> None:
    """TypeError in the words of the language where a call gives other arguments than ``T.name`` takes."""
    signature = Signature.from_callable(special)
    try:
        signature.bind(None, None, *args, **kwargs)
    except TypeError as error:
        taken = [p.replace(annotation=Parameter.empty) for p in list(signature.parameters.values())[2:]]
        raise TypeError(f"T.{name}{Signature(taken)}: {error}") from None


def _alloc_tensor(ctx: PrimContext, node: ast.AST, annotation: Any) -> Allocation:
    if not isinstance(annotation, TensorAnnotation) or annotation.is_const:
        raise TypeError(f"T.alloc_tensor takes Tensor[shape, dtype], got {describe(annotation)}")
    type_ = annotation.resolve()
    ctx.check_bound(type_, node)
    return Allocation(type_)


def _tensor_view(
    ctx: PrimContext, node: ast.AST, src: Any, shape: Sequence[Dim], strides: Sequence[Dim], offset: Dim = 0
) -> BufferView:
    base = view(ctx, node, src)
    assert isinstance(base.type, TensorType)
    shape = as_entries("T.tensor_view: shape is a tuple of extents", shape)
    strides = as_entries("T.tensor_view: strides are a tuple with one entry per extent", strides)
    if len(shape) != len(strides):
        raise TypeError(f"T.tensor_view takes one stride per extent, got {len(shape)} and {len(strides)}")
    for dim in (*shape, *strides, offset):
        ctx.check_dim(dim, node)
    _check_reach(base.buffer, shape, strides, base.offset + offset)
    return BufferView(base.type.with_shape(tuple(shape)), base.buffer, base.offset + offset, tuple(strides))


def _check_reach(buffer: Var, shape: Sequence[Dim], strides: Sequence[Dim], offset: Dim) -> None:
    """TypeError where a view leaves its buffer for every value of the dims."""
    assert isinstance(buffer.type, TensorType)
    if any(bounds(dim)[0] < 1 for dim in shape) or any(bounds(stride)[0] < 0 for stride in strides):
        return
    last = offset
    for dim, stride in zip(shape, strides, strict=True):
        last = last + (dim - 1) * stride
    if bounds(buffer.type.size - 1 - last)[1] < 0:
        raise TypeError(
            f"T.tensor_view: its last element is number {last} of {buffer.name}: {buffer.type}, "
            f"which has {buffer.type.size}"
        )


def _accumulator(ctx: PrimContext, node: ast.AST, kind: Any = "sum", dtype: Any = "f32") -> Joining:
    return Joining(kind_from_name(ReduceKind, kind), DType.from_name(dtype))


def _vectorized(ctx: PrimContext, node: ast.AST, extent: Dim) -> LoopOver:
    ctx.check_dim(extent, node)
    return LoopOver("vector", extent)


def _parallel(ctx: PrimContext, node: ast.AST, extent: Dim, cost: Dim = 1) -> LoopOver:
    ctx.check_dim(extent, node)
    ctx.check_dim(cost, node)
    return LoopOver("parallel", extent, cost)


def _abort(ctx: PrimContext, node: ast.AST, condition: Any, message: str, kind: str = "ValueError") -> Abort:
    value = scalar_of(ctx, node, condition)
    if not is_value(value) or not isinstance(value.type, TensorType) or not value.type.dtype.is_bool:
        raise TypeError(f"T.abort takes a bool scalar, got {describe(condition)}")
    if not isinstance(message, str) or not isinstance(kind, str):
        raise TypeError("T.abort takes its message and the name of the exception as text")
    return Abort(value, kind, message)


_SPECIAL = {
    "alloc_tensor": _alloc_tensor,
    "tensor_view": _tensor_view,
    "accumulator": _accumulator,
    "vectorized": _vectorized,
    "parallel": _parallel,
    "abort": _abort,
    "launch": launch,
    **TILE_CALLS,
}
PRIM_CALLS = {ast.Call: _read_call}
