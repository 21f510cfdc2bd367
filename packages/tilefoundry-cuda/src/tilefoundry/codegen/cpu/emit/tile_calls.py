"""Calls of the runtime's whole-tensor ops, from how programs spell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilefoundry.codegen.cpu.emit.scalars import expr_text, literal
from tilefoundry.ir.core.expr import Expr
from tilefoundry.ir.tir import BufferView, Evaluate, PointerOf
from tilefoundry.ir.types import TensorType

__all__ = ["TILE_CALLS", "tile_call"]


def tile_call(stmt: Evaluate, names: Mapping[str, str]) -> str | None:
    """The call's text without the semicolon, or None for an op whose arguments stand as they are."""
    rule = TILE_CALLS.get(stmt.op)
    return rule(stmt, dict(stmt.attrs), names) if rule is not None else None


def _text(names: Mapping[str, str], *args: Expr) -> str:
    return ", ".join(expr_text(arg, names) for arg in args)


def _copy(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    return f"ops::copy({_text(names, *stmt.args)})"


def _fill(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    value, *views = stmt.args
    return f"ops::fill({_text(names, *views)}, {expr_text(value, names)})"


def _unary(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    return f"ops::unary(ops::{_value(attrs['kind'])}_op{{}}, {_text(names, *stmt.args)})"


def _relu(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    return f"ops::unary(ops::relu_op{{}}, {_text(names, *stmt.args)})"


def _binary(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    *operands, target = stmt.args
    shaped = [_broadcast(_view(one), _view(target)) for one in operands]
    return f"ops::binary(ops::{_value(attrs['kind'])}_op{{}}, {_text(names, *shaped, target)})"


def _clamp(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    source = _view(stmt.args[0]).type
    assert isinstance(source, TensorType)
    infinity = float("inf")
    low, high = attrs.get("min_val"), attrs.get("max_val")
    bounds = (-infinity if low is None else low, infinity if high is None else high)
    return f"ops::clamp({_text(names, *stmt.args)}, {', '.join(literal(b, source.dtype) for b in bounds)})"


def _reduce(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    source, target = _view(stmt.args[0]), _view(stmt.args[1])
    rank = len(source.strides)
    axes = {axis % rank for axis in attrs["axes"]}
    kept = [axis for axis in range(rank) if axis not in axes]
    moved = _picked(source, [*kept, *sorted(axes)])
    if len(target.strides) == rank and kept != list(range(rank)):
        target = _picked(target, kept)
    return f"ops::reduce<ops::{_value(attrs['kind'])}_op>({_text(names, moved, target)})"


def _rms_norm(stmt: Evaluate, attrs: dict[str, Any], names: Mapping[str, str]) -> str:
    source, weight, target = (_view(arg) for arg in stmt.args)
    pointer = PointerOf(weight.type, weight.buffer, weight.offset)
    return f"ops::rms_norm({_text(names, source, pointer, target)}, {attrs['eps']!r})"


def _view(expr: Expr) -> BufferView:
    assert isinstance(expr, BufferView)
    return expr


def _picked(view: BufferView, axes: list[int]) -> BufferView:
    """The view with the axes in ``axes``, in that order; the others have one element."""
    assert isinstance(view.type, TensorType)
    shape = tuple(view.type.shape[axis] for axis in axes)
    return replace(
        view, type=TensorType(shape, view.type.dtype), strides=tuple(view.strides[a] for a in axes)
    )


def _broadcast(view: BufferView, target: BufferView) -> BufferView:
    """The view under the target's shape, with stride 0 where it repeats."""
    assert isinstance(view.type, TensorType) and isinstance(target.type, TensorType)
    lead = len(target.type.shape) - len(view.type.shape)
    own = zip(view.type.shape, view.strides, target.type.shape[lead:], strict=True)
    strides = tuple(0 if have == 1 and want != 1 else stride for have, stride, want in own)
    return replace(view, type=TensorType(target.type.shape, view.type.dtype), strides=((0,) * lead + strides))


def _value(kind: Any) -> str:
    return str(getattr(kind, "value", kind))


TILE_CALLS: dict[str, Callable[[Evaluate, dict[str, Any], Mapping[str, str]], str]] = {
    "copy": _copy,
    "fill": _fill,
    "unary": _unary,
    "relu": _relu,
    "binary": _binary,
    "clamp": _clamp,
    "reduce": _reduce,
    "rms_norm": _rms_norm,
}
"""Ops that a statement-level program may use on a CPU."""
