"""Reductions over modes named by a pattern: sum, mean, max, min."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.layout import IntTuple, flatten, unflatten

from ..dtypes import DType, Float32, Int64, Scalar, as_dtype
from ..layout import Layout
from ..tensor import Tensor, detached
from . import rules
from .checked import can_wrap, unwrapped
from .dispatch import apply
from .elementwise import div, mul
from .operation import Attributes, Operand, Operation, Result, define
from .patterns import reduced_modes
from .unbroadcast import finite_sum, groups, torch_dims

if TYPE_CHECKING:
    import torch


def _plan(operands: Sequence[Operand], attributes: Attributes) -> tuple[IntTuple, tuple[int, ...]]:
    """Shape of the result and the leaf positions that are reduced."""
    (tensor,) = operands
    modes = tensor.shape.modes()
    dropped, kept, position = [], [], 0
    for k, extents in enumerate(modes):
        count = len(flatten(extents))
        if k in attributes["modes"]:
            dropped.extend(range(position, position + count))
        else:
            kept.append(extents)
        position += count
    return (kept[0] if len(kept) == 1 and not isinstance(kept[0], tuple) else tuple(kept)), tuple(dropped)


def accumulator(name: str, dtype: DType, wanted: DType | None) -> DType:
    """The type in which a sum of ``dtype`` is carried: Float32 or Int64 unless ``wanted``.

    Raises:
        TypeError: ``wanted`` is of another kind than ``dtype``.
    """
    usual = Float32 if dtype.is_float else Int64
    chosen = usual if wanted is None else as_dtype(wanted, f"{name} accumulator_dtype")
    if chosen.kind != usual.kind:
        raise TypeError(f"{name}: accumulator_dtype {chosen} cannot carry {dtype}; use {usual}")
    return chosen


def infer(operands: Sequence[Operand], attributes: Attributes) -> Result:
    """The kept modes, the operand's type."""
    (tensor,) = operands
    name = attributes["name"]
    if tensor.dtype() not in rules.ARITHMETIC:
        raise TypeError(f"{name}: {tensor.dtype()} cannot be reduced; cast it first")
    if name == "reduce_mean":
        rules.float_only(name, tensor)
    return Result(_plan(operands, attributes)[0], tensor.dtype())


def torch_sum(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    """Carried in the accumulator's type, rounded once; integers are checked."""
    view, dims = views[0], torch_dims(attributes, views[0])
    if result.dtype.is_float:
        return view.sum(dims, dtype=attributes["accumulator"].torch()) if dims else view
    total = view.to(Int64.torch())
    if not dims:
        return total
    near = view.double().sum(dims) if can_wrap(result.dtype) else None
    return unwrapped("reduce_sum", total.sum(dims), near, result.dtype)


def py_sum(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    """Exact sums, rounded once; integers are checked when stored."""
    add = math.fsum if result.dtype.is_float else sum
    return [finite_sum(add, g) for g in groups(operands[0], attributes["leaves"])]


def torch_mean(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
    """The sum over the count, rounded once."""
    view, dims = views[0], torch_dims(attributes, views[0])
    return view.mean(dims, dtype=attributes["accumulator"].torch()) if dims else view


def py_mean(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
    """The exact mean, rounded once."""
    return [finite_sum(math.fsum, g) / len(g) for g in groups(operands[0], attributes["leaves"])]


def _extreme(torch_name: str, better: Callable[[Sequence[Scalar]], Scalar]) -> tuple[Callable, Callable]:
    def on_torch(views: Sequence[Any], attributes: Attributes, result: Result) -> torch.Tensor:
        dims = torch_dims(attributes, views[0])
        return getattr(views[0], torch_name)(dims) if dims else views[0]

    def on_python(operands: Sequence[Any], attributes: Attributes, result: Result) -> list[Scalar]:
        return [_nan_or(better, g) for g in groups(operands[0], attributes["leaves"])]

    return on_torch, on_python


def _nan_or(better: Callable[[Sequence[Scalar]], Scalar], group: Sequence[Scalar]) -> Scalar:
    return next((v for v in group if v != v), None) or better(group)


def vjp_sum(operands: Sequence[Operand], attributes: Attributes, result: Tensor, gradient: Tensor):
    """g, spread over the reduced modes"""
    return (spread(gradient, operands[0], attributes["leaves"]),)


def vjp_mean(operands: Sequence[Operand], attributes: Attributes, result: Tensor, gradient: Tensor):
    """g / count, spread over the reduced modes"""
    count = operands[0].size() // result.size()
    return (spread(div(gradient, float(count)), operands[0], attributes["leaves"]),)


def vjp_extreme(operands: Sequence[Operand], attributes: Attributes, result: Tensor, gradient: Tensor):
    """g, shared evenly by all values equal to the extreme"""
    tensor, leaves = operands[0], attributes["leaves"]
    chosen = apply(EQUAL, (tensor, spread(result, tensor, leaves)), {})
    count = apply(
        _OPERATIONS["reduce_sum"], (chosen,), {**attributes, "name": "reduce_sum", "accumulator": Float32}
    )
    return (mul(spread(div(gradient, count), tensor, leaves), chosen),)


def spread(tensor: Tensor, like: Tensor, leaves: Sequence[int]) -> Tensor:
    """``tensor`` (reduced over ``leaves`` of ``like``) seen over the whole shape of ``like``, without a copy."""
    given = iter(flatten(tensor.layout.stride))
    count = len(like.shape.leaves())
    strides = tuple(0 if k in leaves else next(given) for k in range(count))
    extents = like.shape.extents
    return detached(Tensor(tensor.carrier, tensor.offset, Layout(extents, unflatten(strides, extents))))


def _infer_equal(operands: Sequence[Operand], _: Attributes) -> Result:
    return Result(operands[0].shape.extents, operands[0].dtype())


EQUAL = Operation(
    "equal_mask",
    _infer_equal,
    lambda views, _, result: (views[0] == views[1]).to(result.dtype.torch()),
    lambda o, _, result: [float(a == b) for a, b in zip(o[0].items, o[1].items, strict=True)],
)

_MAX, _MIN = _extreme("amax", max), _extreme("amin", min)
_OPERATIONS = {
    op.name: define(op)
    for op in (
        Operation("reduce_sum", infer, torch_sum, py_sum, vjp_sum),
        Operation("reduce_mean", infer, torch_mean, py_mean, vjp_mean),
        Operation("reduce_max", infer, *_MAX, vjp_extreme, (0, "result")),
        Operation("reduce_min", infer, *_MIN, vjp_extreme, (0, "result")),
    )
}


def _reduce(name: str, tensor: Tensor, pattern: str, accumulator_dtype: DType | None = None) -> Tensor:
    if not isinstance(tensor, Tensor):
        # apply refuses with the right words for pending handles too.
        return apply(
            _OPERATIONS[name], (tensor,), {"name": name, "modes": (), "leaves": (), "accumulator": Float32}
        )
    modes = reduced_modes(name, pattern, tensor.shape.rank)
    attributes: dict[str, Any] = {"name": name, "modes": modes, "pattern": pattern}
    attributes["leaves"] = _plan((tensor,), attributes)[1]
    attributes["accumulator"] = accumulator(name, tensor.dtype(), accumulator_dtype)
    return apply(_OPERATIONS[name], (tensor,), attributes)


def reduce_sum(tensor: Tensor, pattern: str, *, accumulator_dtype: DType | None = None) -> Tensor:
    """The sum over the modes that ``pattern`` leaves out on the right: ``"a b -> a"`` sums the trailing mode.

    Carried in ``accumulator_dtype`` (Float32; Int64 for integers), rounded once to the operand's type; an integer
    result out of range is an OverflowError.
    """
    return _reduce("reduce_sum", tensor, pattern, accumulator_dtype)


def reduce_mean(tensor: Tensor, pattern: str, *, accumulator_dtype: DType | None = None) -> Tensor:
    """The mean over the modes that ``pattern`` leaves out; floats only."""
    return _reduce("reduce_mean", tensor, pattern, accumulator_dtype)


def reduce_max(tensor: Tensor, pattern: str) -> Tensor:
    """The largest value over the modes that ``pattern`` leaves out; NaN wins. Ties share the gradient."""
    return _reduce("reduce_max", tensor, pattern)


def reduce_min(tensor: Tensor, pattern: str) -> Tensor:
    """The smallest value over the modes that ``pattern`` leaves out; NaN wins. Ties share the gradient."""
    return _reduce("reduce_min", tensor, pattern)
