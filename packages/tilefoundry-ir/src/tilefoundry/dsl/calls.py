"""Calls in a body: ops, functions, child modules, and Python callables over what is known while reading."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from typing import Any

from tilefoundry.dsl.children import ChildRef, FunctionRef, entry_of
from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.expressions import is_tuple_value
from tilefoundry.dsl.function_calls import call_function
from tilefoundry.dsl.ops import OpRef, bind_op
from tilefoundry.dsl.ranges import make_range
from tilefoundry.dsl.unrolling import static_items
from tilefoundry.ir.core.module import Module
from tilefoundry.ir.hir.function import Function
from tilefoundry.ir.tir.function import PrimFunction

__all__ = ["CALLS", "call_python", "read_arguments"]

# Python callables that may see lists of tensors: they only rearrange them.
_CONTAINER_CALLS: tuple[Any, ...] = (len, zip, enumerate, list, tuple, reversed)


def _read_call(ctx: BodyContext, node: ast.Call, hint: str | None) -> Any:
    callee = ctx.read(node.func)
    args, kwargs = read_arguments(ctx, node)
    if isinstance(callee, OpRef):
        return bind_op(ctx, node, callee.op, args, kwargs, hint)
    if isinstance(callee, Function):
        return call_function(ctx, node, FunctionRef(callee, (callee.name,)), args, kwargs, hint)
    if isinstance(callee, (Module, ChildRef)):
        with ctx.pointing_at(node):
            callee = entry_of(ctx, callee)
    if isinstance(callee, FunctionRef):
        return call_function(ctx, node, callee, args, kwargs, hint)
    return call_python(ctx, node, callee, args, kwargs)


def read_arguments(ctx: BodyContext, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
    """The values of a call's arguments, by position and by keyword."""
    return _positional(ctx, node), _keywords(ctx, node)


def _positional(ctx: BodyContext, node: ast.Call) -> list[Any]:
    args: list[Any] = []
    for arg in node.args:
        if isinstance(arg, ast.Starred):
            args.extend(static_items(ctx, arg.value, ctx.read(arg.value)))
        else:
            args.append(ctx.read(arg))
    return args


def _keywords(ctx: BodyContext, node: ast.Call) -> dict[str, Any]:
    kwargs: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            raise ctx.error(keyword.value, "** is not part of the DSL; write the keywords out")
        kwargs[keyword.arg] = ctx.read(keyword.value)
    return kwargs


def call_python(
    ctx: BodyContext, node: ast.Call, callee: Any, args: list[Any], kwargs: dict[str, Any]
) -> Any:
    """Run Python code on what is known while the program is read; DslError where a tensor would reach it."""
    if isinstance(callee, PrimFunction):
        raise ctx.error(
            node,
            f"{callee.name} is a @prim_func without levels of its own, which a @prim_func launches; to call it from a "
            "tensor program, declare them in the same class: @prim_func(topologies=...)",
        )
    if is_value(callee) or not callable(callee):
        raise ctx.error(node.func, f"{describe(callee)} cannot be called")
    if callee in _CONTAINER_CALLS:
        args = [static_items(ctx, node, arg) if is_tuple_value(arg) else arg for arg in args]
    given = [*args, *kwargs.values()]
    if any(is_value(v) for v in given) or (callee not in _CONTAINER_CALLS and any(map(_holds_value, given))):
        name = getattr(callee, "__name__", describe(callee))
        raise ctx.error(
            node, f"{name} is Python code and cannot take tensors; make it a @func, or use a tf op"
        )
    run: Callable[..., Any] = make_range if callee is builtins.range else callee
    with ctx.pointing_at(node):
        return run(*args, **kwargs)


def _holds_value(value: Any) -> bool:
    return is_value(value) or (isinstance(value, (list, tuple)) and any(map(_holds_value, value)))


CALLS = {ast.Call: _read_call}
