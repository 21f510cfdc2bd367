"""Extents inside expressions: which questions about them have an answer while a program is read."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from tilefoundry.dsl.context import BodyContext, is_value
from tilefoundry.dsl.literals import constant
from tilefoundry.ir.core.expr import Atom
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.types import Dim, DimExpr, DimVar, DType, bounds, dim_vars

__all__ = ["compare_extents", "is_extent", "is_index_extent", "materialize", "truth"]

_I64 = DType.from_name("i64")


def is_extent(value: Any) -> bool:
    """True for a dim that is no plain integer."""
    return isinstance(value, (DimVar, DimExpr))


def is_index_extent(ctx: BodyContext, value: Any) -> bool:
    """True for an expression of loop indices alone."""
    return is_extent(value) and all(var.name in ctx.indices for var in dim_vars(value))


def materialize(ctx: BodyContext, node: ast.AST, value: Any) -> Any:
    """A loop index, or an expression of some, as an i64 scalar value; everything else unchanged.

    Raises DslError for an extent that only the shapes of arguments determine.
    """
    if not is_extent(value):
        return value
    if not is_index_extent(ctx, value):
        raise ctx.error(node, f"the extent {value} is no tensor; read it with tf.shape_of, and tf.cast it")
    if isinstance(value, DimVar):
        return ctx.indices[value.name]
    total: Atom | None = None
    for monomial, coefficient in value.terms:
        term = _term(ctx, node, monomial, coefficient)
        total = term if total is None else _emit(ctx, node, "add", total, term)
    return total


def _term(ctx: BodyContext, node: ast.AST, monomial: tuple[Any, ...], coefficient: int) -> Atom:
    factors = [_factor(ctx, node, atom) for atom in monomial]
    if coefficient != 1 or not factors:
        factors.append(constant(coefficient, _I64))
    product = factors[0]
    for factor in factors[1:]:
        product = _emit(ctx, node, "mul", product, factor)
    return product


def _factor(ctx: BodyContext, node: ast.AST, atom: Any) -> Atom:
    if isinstance(atom, DimVar):
        return ctx.indices[atom.name]
    numerator = materialize(ctx, node, atom.numerator)
    return _emit(ctx, node, "floor_div", numerator, constant(atom.divisor, _I64))


def _emit(ctx: BodyContext, node: ast.AST, name: str, lhs: Atom, rhs: Atom) -> Atom:
    return ctx.emit(HIR_OPS[name].call((lhs, rhs)), node)


_DECISIONS: dict[str, Callable[[int, int], bool | None]] = {
    # From the smallest and the largest value of lhs - rhs.
    "<": lambda low, high: True if high < 0 else False if low >= 0 else None,
    "<=": lambda low, high: True if high <= 0 else False if low > 0 else None,
    ">": lambda low, high: True if low > 0 else False if high <= 0 else None,
    ">=": lambda low, high: True if low >= 0 else False if high < 0 else None,
    "==": lambda low, high: True if low == high == 0 else False if low > 0 or high < 0 else None,
    "!=": lambda low, high: False if low == high == 0 else True if low > 0 or high < 0 else None,
}


def compare_extents(ctx: BodyContext, node: ast.AST, symbol: str, lhs: Dim, rhs: Dim) -> bool:
    """``lhs symbol rhs`` where the ranges of the variables settle it; DslError otherwise."""
    decide = _DECISIONS.get(symbol)
    with ctx.pointing_at(node):
        answer = None if decide is None else decide(*bounds(lhs - rhs))
    if answer is None:
        raise ctx.error(
            node,
            f"{lhs} {symbol} {rhs} is not known while the program is read: one program serves every extent; "
            "specialise the function over the extent instead",
        )
    return answer


def truth(ctx: BodyContext, node: ast.AST, value: Any) -> bool:
    """Whether a condition holds; DslError for a tensor and for an extent that may be zero or not."""
    if is_value(value):
        raise ctx.error(node, "a tensor cannot choose a branch; write tf.where(condition, a, b)")
    if is_extent(value):
        return compare_extents(ctx, node, "!=", value, 0)
    with ctx.pointing_at(node):
        return bool(value)
