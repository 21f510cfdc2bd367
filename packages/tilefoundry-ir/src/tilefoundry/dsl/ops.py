"""Calls of ``tf`` ops: which argument is an operand, which an attribute."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

from tilefoundry.dsl.annotations import TensorAnnotation
from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.extents import is_extent, materialize
from tilefoundry.dsl.literals import constant, is_number, resolve_operands
from tilefoundry.dsl.ranges import TileWindow
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.core.op import Op
from tilefoundry.ir.hir import HIR_OPS
from tilefoundry.ir.hir.windows import split_starts
from tilefoundry.ir.types import DType

__all__ = ["OTHER_NAMES", "OpRef", "bind_op", "call_op"]

OTHER_NAMES = {"max": "maximum", "min": "minimum"}
"""Second names that model files use; canonical text has the first."""


# Operands that are positions or lengths: an int there is i32, whatever the dtype of the tensors beside it.
_COUNTS = {"cache_update": ("cur_pos", "s"), "attention": ("kv_len",)}
# Attributes by position where their order depends on how many there are, as in Python's range.
_ORDERS = {
    ("arange", 2): ("start", "end"),
    ("arange", 3): ("start", "end", "step"),
    ("arange", 4): ("start", "end", "step", "dtype"),
}
# Ops whose starts may be tensors, and the attribute that lists the starts.
_WINDOW_ATTRS = {"slice": "starts", "insert_slice": "offsets"}


class OpRef:
    """An op as a name that a program calls; calling it from plain Python is a TypeError."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.__doc__ = f"tf.{op.name}{_signature(op)}: {op.doc}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"tf.{self.op.name} has a meaning inside a @func only; decorate the calling function with @func"
        )

    def __repr__(self) -> str:
        return f"tf.{self.op.name}"


def call_op(
    ctx: BodyContext,
    node: ast.AST,
    name: str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    hint: str | None,
) -> Var:
    """Append a call of the op called ``name`` and give its value.

    Raises DslError at ``node`` for arguments that its schema or type rule refuses.
    """
    op = HIR_OPS.get(name)
    if op is None:
        raise ctx.error(node, f"there is no op tf.{name}")
    return bind_op(ctx, node, op, args, kwargs, hint)


def bind_op(
    ctx: BodyContext, node: ast.AST, op: Op, args: Sequence[Any], kwargs: Mapping[str, Any], hint: str | None
) -> Var:
    """Append a call of ``op``: positional operands first, attributes after them or by keyword."""
    with ctx.pointing_at(node):
        operands, attrs = _split(op, list(args), dict(kwargs))
        atoms = resolve_operands([_operand(ctx, node, op, i, value) for i, value in enumerate(operands)])
        call = op.call(atoms, attrs)
    for _, value in call.attrs:
        _check_attr_dims(ctx, node, value)
    return ctx.emit(call, node, hint)


def _operand(ctx: BodyContext, node: ast.AST, op: Op, position: int, value: Any) -> Any:
    counts = isinstance(value, Integral) and not isinstance(value, bool)
    if counts and op.operands[min(position, len(op.operands) - 1)] in _COUNTS.get(op.name, ()):
        return constant(value, DType.i32)
    return materialize(ctx, node, value)


def _split(op: Op, args: list[Any], kwargs: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    operands, rest = _variadic_operands(op, args) if op.variadic else _positional_operands(op, args)
    operands = _keyword_operands(op, operands, kwargs)
    rest, kwargs, starts = _start_operands(op, rest, kwargs)
    operands = [*operands, *starts]
    attrs = _attrs(op, rest, kwargs)
    for value in operands:
        if not is_value(value) and not is_number(value) and not is_extent(value):
            raise TypeError(f"{_usage(op)}: an operand is a tensor or a number, got {describe(value)}")
    return operands, attrs


def _variadic_operands(op: Op, args: list[Any]) -> tuple[list[Any], list[Any]]:
    flat = (
        args
        if op.name in _WINDOW_ATTRS
        else [v for arg in args for v in (arg if _is_value_list(arg) else (arg,))]
    )
    count = next((i for i, v in enumerate(flat) if not is_value(v)), len(flat))
    return flat[:count], flat[count:]


def _is_value_list(arg: Any) -> bool:
    return isinstance(arg, (list, tuple)) and bool(arg) and all(is_value(v) for v in arg)


def _start_operands(
    op: Op, rest: list[Any], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any], list[Any]]:
    """Move the tensors among a window's starts to the operands, as the op's schema has them."""
    name = _WINDOW_ATTRS.get(op.name)
    given = rest[0] if rest else kwargs.get(name or "")
    if name is None or not isinstance(given, (list, tuple)) or not any(map(is_value, given)):
        return rest, kwargs, []
    starts, attr = split_starts(tuple(given), is_value)
    if rest:
        return [attr, *rest[1:]], kwargs, list(starts)
    return rest, {**kwargs, name: attr}, list(starts)


def _positional_operands(op: Op, args: list[Any]) -> tuple[list[Any], list[Any]]:
    least = len(op.operands) - op.optional
    count = min(len(args), len(op.operands))
    # An optional operand is a tensor; anything else in its place already belongs to the attributes.
    while count > least and not is_value(args[count - 1]) and args[count - 1] is not None:
        count -= 1
    return args[:count], args[count:]


def _keyword_operands(op: Op, operands: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    if op.variadic:
        return operands
    given: dict[str, Any] = dict(zip(op.operands, operands, strict=False))
    for name in op.operands:
        if name in kwargs:
            if name in given:
                raise TypeError(f"{_usage(op)}: {name} is given by position and by keyword")
            given[name] = kwargs.pop(name)
    given = {name: value for name, value in given.items() if value is not None}
    filled = [name in given for name in op.operands]
    count = filled.index(False) if False in filled else len(filled)
    if any(filled[count:]) or count < len(op.operands) - op.optional:
        raise TypeError(f"{_usage(op)}: the operand {op.operands[count]!r} is missing")
    return [given[name] for name in op.operands[:count]]


def _attrs(op: Op, rest: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    names = [attr.name for attr in op.attrs]
    if len(rest) > len(names):
        raise TypeError(
            f"{_usage(op)}: {len(rest) - len(names)} arguments too many, {describe(rest[len(names)])} the first"
        )
    attrs = dict(zip(_ORDERS.get((op.name, len(rest)), names), rest, strict=False))
    for name, value in kwargs.items():
        if name in attrs:
            raise TypeError(f"{_usage(op)}: {name} is given by position and by keyword")
        attrs[name] = value
    return {name: _attr_value(op, name, value) for name, value in attrs.items()}


def _attr_value(op: Op, name: str, value: Any) -> Any:
    if isinstance(value, TensorAnnotation):
        return value.resolve()
    if isinstance(value, TileWindow):
        return value.start
    if isinstance(value, (list, tuple)):
        return tuple(_attr_value(op, name, v) for v in value)
    if is_value(value):
        raise TypeError(
            f"{_usage(op)}: {name} must be known while the program is read, got the tensor {describe(value)}"
        )
    return value


def _check_attr_dims(ctx: BodyContext, node: ast.AST, value: Any) -> None:
    if isinstance(value, (list, tuple)):
        for part in value:
            _check_attr_dims(ctx, node, part)
    elif is_extent(value):
        ctx.check_dim(value, node)


def _usage(op: Op) -> str:
    return f"tf.{op.name}{_signature(op)}"


def _signature(op: Op) -> str:
    operands = ", ".join(op.operands)
    if op.variadic:
        operands += ", ..."
    attrs = ", ".join(attr.name for attr in op.attrs)
    return f"({operands}: {attrs})" if attrs else f"({operands})"
