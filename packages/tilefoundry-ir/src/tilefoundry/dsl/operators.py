"""Operators: on IR values they are ops, on Python objects Python's own."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from typing import Any

from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.extents import compare_extents, is_extent, is_index_extent, truth
from tilefoundry.dsl.literals import is_number
from tilefoundry.dsl.ranges import TileWindow
from tilefoundry.ir.types.shard import SplitExtent

__all__ = ["OPERATORS", "apply_binary"]

_BINARY: dict[type, tuple[str, str | None, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", "add", operator.add),
    ast.Sub: ("-", "sub", operator.sub),
    ast.Mult: ("*", "mul", operator.mul),
    ast.Div: ("/", "div", operator.truediv),
    ast.FloorDiv: ("//", "floor_div", operator.floordiv),
    ast.Mod: ("%", "mod", operator.mod),
    ast.MatMult: ("@", "matmul", operator.matmul),
    ast.BitAnd: ("&", "logical_and", operator.and_),
    ast.BitOr: ("|", "logical_or", operator.or_),
    ast.Pow: ("**", None, operator.pow),
    ast.LShift: ("<<", None, operator.lshift),
    ast.RShift: (">>", None, operator.rshift),
    ast.BitXor: ("^", None, operator.xor),
}
_COMPARE: dict[type, tuple[str, str | None, Callable[[Any, Any], Any]]] = {
    ast.Eq: ("==", "cmp_eq", operator.eq),
    ast.NotEq: ("!=", "cmp_ne", operator.ne),
    ast.Lt: ("<", "cmp_lt", operator.lt),
    ast.LtE: ("<=", "cmp_le", operator.le),
    ast.Gt: (">", "cmp_gt", operator.gt),
    ast.GtE: (">=", "cmp_ge", operator.ge),
    ast.Is: ("is", None, operator.is_),
    ast.IsNot: ("is not", None, operator.is_not),
    ast.In: ("in", None, lambda a, b: a in b),
    ast.NotIn: ("not in", None, lambda a, b: a not in b),
}
_UNARY: dict[type, tuple[str, str | None, Callable[[Any], Any]]] = {
    ast.USub: ("-", "neg", operator.neg),
    ast.UAdd: ("+", None, operator.pos),
    ast.Invert: ("~", "logical_not", operator.invert),
    ast.Not: ("not", None, operator.not_),
}
_WAY_OUT = {
    "**": "only x ** 2 and x ** 0.5 exist: write products, tf.square or tf.sqrt",
    "+": "leave the unary + out",
    "not": "write ~x or tf.logical_not(x)",
    "and": "write a & b",
    "or": "write a | b",
    "is": "write == or tf.cmp_eq",
    "is not": "write != or tf.cmp_ne",
}
# Reading a program must end, in bounded memory: 9 ** 9 ** 9 and "a" * 10**12 would not.
_LARGEST_POWER = 4096
_LONGEST = 65536


def apply_binary(
    ctx: BodyContext, node: ast.AST, op: ast.operator, lhs: Any, rhs: Any, hint: str | None
) -> Any:
    """``lhs op rhs`` as an op call where a tensor takes part, and as Python computes it otherwise."""
    symbol, name, python = _BINARY[type(op)]
    if not is_value(lhs) and not is_value(rhs):
        return _python_binary(ctx, node, symbol, python, lhs, rhs)
    _check_operands(ctx, node, symbol, lhs, rhs)
    if symbol == "**":
        return _power(ctx, node, lhs, rhs, hint)
    if name is None:
        raise ctx.error(node, _refusal(symbol))
    return ctx.apply(ctx, node, name, (lhs, rhs), {}, hint)


def _read_binary(ctx: BodyContext, node: ast.BinOp, hint: str | None) -> Any:
    lhs = ctx.read(node.left)
    rhs = ctx.read(node.right)
    return apply_binary(ctx, node, node.op, lhs, rhs, hint)


def _python_binary(
    ctx: BodyContext, node: ast.AST, symbol: str, python: Callable[[Any, Any], Any], lhs: Any, rhs: Any
) -> Any:
    lhs, rhs = (side.start if isinstance(side, TileWindow) else side for side in (lhs, rhs))
    with ctx.pointing_at(node):
        _check_size(symbol, lhs, rhs)
        if type(lhs).__module__.startswith("tilefoundry.dsl.") or type(rhs).__module__.startswith(
            "tilefoundry.dsl."
        ):
            raise TypeError(f"{symbol} is not defined on {describe(lhs)} and {describe(rhs)}")
        if symbol == "@" and isinstance(rhs, tuple):
            return SplitExtent(lhs, rhs)
        return python(lhs, rhs)


def _check_size(symbol: str, lhs: Any, rhs: Any) -> None:
    if symbol in ("**", "<<") and isinstance(rhs, int) and abs(rhs) > _LARGEST_POWER:
        raise ValueError(f"{symbol} {rhs} is too large to compute while the program is read")
    for items, count in ((lhs, rhs), (rhs, lhs)):
        if symbol != "*" or not isinstance(items, (str, bytes, list, tuple)) or not isinstance(count, int):
            continue
        if len(items) * count > _LONGEST:
            raise ValueError(f"{len(items)} * {count} items are too many to make while the program is read")


def _check_operands(ctx: BodyContext, node: ast.AST, symbol: str, lhs: Any, rhs: Any) -> None:
    for side in (lhs, rhs):
        if is_value(side) or is_number(side) or is_extent(side):
            continue
        raise ctx.error(node, f"{symbol} takes tensors and numbers, got {describe(side)}")


def _power(ctx: BodyContext, node: ast.AST, lhs: Any, rhs: Any, hint: str | None) -> Any:
    name = {2: "square", 0.5: "sqrt", -0.5: "rsqrt"}.get(rhs) if is_number(rhs) else None
    if name is None or isinstance(rhs, bool):
        raise ctx.error(node, _refusal("**"))
    return ctx.apply(ctx, node, name, (lhs,), {}, hint)


def _read_unary(ctx: BodyContext, node: ast.UnaryOp, hint: str | None) -> Any:
    symbol, name, python = _UNARY[type(node.op)]
    value = ctx.read(node.operand)
    if symbol == "not" and not is_value(value):
        return not truth(ctx, node.operand, value)
    if not is_value(value):
        with ctx.pointing_at(node):
            return python(value)
    if name is None:
        raise ctx.error(node, _refusal(symbol))
    return ctx.apply(ctx, node, name, (value,), {}, hint)


def _read_compare(ctx: BodyContext, node: ast.Compare, hint: str | None) -> Any:
    values = [ctx.read(part) for part in (node.left, *node.comparators)]
    if not any(is_value(value) or is_index_extent(ctx, value) for value in values):
        return _python_compare(ctx, node, values)
    if len(values) > 2:
        raise ctx.error(node, "comparisons of tensors do not chain; write (a < b) & (b < c)")
    symbol, name, _ = _COMPARE[type(node.ops[0])]
    if name is None:
        raise ctx.error(node, _refusal(symbol))
    _check_operands(ctx, node, symbol, *values)
    return ctx.apply(ctx, node, name, tuple(values), {}, hint)


def _python_compare(ctx: BodyContext, node: ast.Compare, values: list[Any]) -> Any:
    result: Any = True
    for op, lhs, rhs in zip(node.ops, values, values[1:], strict=False):
        symbol, _, python = _COMPARE[type(op)]
        if symbol not in ("is", "is not", "in", "not in") and (is_extent(lhs) or is_extent(rhs)):
            result = compare_extents(ctx, node, symbol, lhs, rhs)
        else:
            with ctx.pointing_at(node):
                result = python(lhs, rhs)
        if not truth(ctx, node, result):
            break
    return result


def _read_bool_op(ctx: BodyContext, node: ast.BoolOp, hint: str | None) -> Any:
    symbol = "and" if isinstance(node.op, ast.And) else "or"
    value: Any = None
    for part in node.values:
        value = ctx.read(part)
        if is_value(value):
            raise ctx.error(node, _refusal(symbol))
        if truth(ctx, part, value) is (symbol == "or"):
            break
    return value


def _refusal(symbol: str) -> str:
    way_out = _WAY_OUT.get(symbol)
    return f"{symbol} is not defined on tensors" + (f"; {way_out}" if way_out else "")


OPERATORS = {
    ast.BinOp: _read_binary,
    ast.UnaryOp: _read_unary,
    ast.Compare: _read_compare,
    ast.BoolOp: _read_bool_op,
}
