"""Scalar computation in a statement-level program."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.extents import is_extent
from tilefoundry.dsl.literals import is_number, resolve_operands
from tilefoundry.ir.core.expr import Expr
from tilefoundry.ir.tir.expr import Apply, BufferView, IndexValue, compute_dtype
from tilefoundry.ir.tir.ops import SCALAR_OPS
from tilefoundry.ir.tir.tiles import Prologue
from tilefoundry.ir.types import DType, TensorType, scalar

__all__ = ["apply_scalar", "check_clamp", "scalar_of"]

_ATTRS = {"cast": ("dtype",), "clamp": ("min_val", "max_val")}


def apply_scalar(
    ctx: BodyContext,
    node: ast.AST,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    hint: str | None,
) -> Expr:
    """The scalar op called ``name`` on scalars, numbers and extents.

    Raises DslError at ``node`` for operands that it does not take.
    """
    op = SCALAR_OPS.get(name)
    if op is None:
        raise ctx.error(node, f"{name} is not computed on scalars; the scalar ops: {', '.join(SCALAR_OPS)}")
    with ctx.pointing_at(node):
        attrs = _attrs(name, args[op.arity :], kwargs)
        if len(args) < op.arity:
            raise TypeError(f"{name} takes {op.arity} scalars, got {len(args)}")
        operands = resolve_operands([scalar_of(ctx, node, value) for value in args[: op.arity]])
        return Apply(_result(name, operands, attrs), name, tuple(operands), tuple(attrs.items()))


def scalar_of(ctx: BodyContext, node: ast.AST, value: Any) -> Any:
    """A scalar expression, or a number that takes its dtype from what stands beside it."""
    if is_extent(value):
        ctx.check_dim(value, node)
        return IndexValue.of(value)
    if isinstance(value, (BufferView, Prologue)) or not (is_value(value) or is_number(value)):
        raise ctx.error(node, f"a scalar is needed here, got {describe(value)}; read an element, as in x[i]")
    return value


def _attrs(name: str, rest: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    names = _ATTRS.get(name, ())
    if len(rest) > len(names):
        raise TypeError(
            f"{name} takes {SCALAR_OPS[name].arity} scalars, got {SCALAR_OPS[name].arity + len(rest)}"
        )
    given = {**dict(zip(names, rest, strict=False)), **kwargs}
    unknown = [key for key in given if key not in names]
    missing = [key for key in names if key not in given and name == "cast"]
    if unknown or missing:
        raise TypeError(
            f"{name} takes the attributes {', '.join(names) or 'none'}, got {', '.join(given) or 'none'}"
        )
    if name == "cast":
        given["dtype"] = DType.from_name(given["dtype"])
    elif name == "clamp":
        check_clamp(given.get("min_val"), given.get("max_val"))
    return {key: given.get(key) for key in names}


def check_clamp(low: Any, high: Any) -> None:
    """Raise TypeError where the bounds of a clamp are none, no numbers, or the wrong way round."""
    if low is None and high is None:
        raise TypeError("T.clamp needs min_val or max_val")
    for name, bound in (("min_val", low), ("max_val", high)):
        # A NaN is unequal to itself and bounds nothing.
        if bound is not None and (not is_number(bound) or isinstance(bound, bool) or bound != bound):
            raise TypeError(f"T.clamp: {name} is a number, got {bound!r}")
    if low is not None and high is not None and low > high:
        raise TypeError(f"T.clamp: min_val={low} lies above max_val={high}; swap them")


def _result(name: str, operands: Sequence[Expr], attrs: Mapping[str, Any]) -> TensorType:
    dtypes = [_dtype(operand) for operand in operands]
    if name == "select":
        if not dtypes[0].is_bool:
            raise TypeError(f"select takes a bool condition, got {dtypes[0]}")
        dtypes = dtypes[1:]
    if any(dtype is not dtypes[0] for dtype in dtypes):
        raise TypeError(f"{name} takes scalars of one dtype, got {', '.join(map(str, dtypes))}; use T.cast")
    if name == "cast":
        return scalar(compute_dtype(attrs["dtype"]))
    if name.startswith("logical") and not dtypes[0].is_bool:
        raise TypeError(f"{name} takes bool scalars, got {dtypes[0]}")
    return scalar(DType.bool_ if name.startswith("cmp_") else dtypes[0])


def _dtype(operand: Expr) -> DType:
    assert isinstance(operand.type, TensorType)
    return operand.type.dtype
