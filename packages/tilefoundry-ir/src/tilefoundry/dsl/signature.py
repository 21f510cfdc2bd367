"""Parameters and result type of a definition."""

from __future__ import annotations

import ast
from typing import Any

from tilefoundry.dsl.annotations import TensorAnnotation
from tilefoundry.dsl.context import BodyContext, describe
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.types import TensorType, TupleType, Type, type_dim_vars

__all__ = ["read_params", "read_result"]

_PLAIN_ONLY = "a parameter is written name: Tensor[shape, dtype] or name: ConstTensor[shape, dtype]"


def read_params(ctx: BodyContext, node: ast.FunctionDef) -> tuple[Var, ...]:
    """The parameters, typed; their names are taken and their extents bound.

    Raises DslError for ``*args``, defaults, and missing or wrong annotations.
    """
    args = node.args
    for other in (*args.posonlyargs, *args.kwonlyargs, args.vararg, args.kwarg):
        if other is not None:
            raise ctx.error(other, f"{_PLAIN_ONLY}; there are no *, ** and / parameters")
    for default in args.defaults:
        raise ctx.error(default, f"{_PLAIN_ONLY}; there are no defaults")
    params = tuple(_read_param(ctx, arg) for arg in args.args)
    for arg, param in zip(args.args, params, strict=True):
        _bind_extents(ctx, arg, param)
    return params


def _read_param(ctx: BodyContext, arg: ast.arg) -> Var:
    if arg.annotation is None:
        raise ctx.error(arg, f"{arg.arg} has no type; {_PLAIN_ONLY}")
    annotation = _read_annotation(ctx, arg.annotation)
    if not isinstance(annotation, TensorAnnotation):
        raise ctx.error(arg.annotation, f"{_PLAIN_ONLY}, got {describe(annotation)}")
    with ctx.pointing_at(arg.annotation):
        type_ = annotation.resolve()
    return Var(type_, arg.arg, annotation.is_const)


def _bind_extents(ctx: BodyContext, arg: ast.arg, param: Var) -> None:
    for var in type_dim_vars(param.type):
        twin = next((d for d in ctx.dims if d.name == var.name and d != var), None)
        if twin is not None:
            raise ctx.error(
                arg,
                f"{var.name} has the range [{var.lo}, {var.hi}) here and [{twin.lo}, {twin.hi}) before; "
                "one name has one range",
            )
        ctx.dims.add(var)


def read_result(ctx: BodyContext, node: ast.FunctionDef) -> Type | None:
    """The declared result type, or None where the definition leaves it to its body."""
    if node.returns is None:
        return None
    declared = _result_type(ctx, node.returns)
    ctx.check_bound(declared, node.returns)
    return declared


def _result_type(ctx: BodyContext, node: ast.expr) -> Type:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = _quoted(ctx, node)
    if isinstance(node, ast.Subscript) and ctx.read(node.value) is tuple:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return TupleType(tuple(_result_type(ctx, part) for part in parts))
    annotation = _read_annotation(ctx, node)
    if not isinstance(annotation, TensorAnnotation) or annotation.is_const:
        raise ctx.error(
            node,
            "a result is declared as Tensor[shape, dtype], or tuple[Tensor[...], ...] for several, "
            f"got {describe(annotation)}",
        )
    with ctx.pointing_at(node):
        resolved: TensorType = annotation.resolve()
    return resolved


def _read_annotation(ctx: BodyContext, node: ast.expr) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        node = _quoted(ctx, node)
    return ctx.read_static(node, "an annotation")


def _quoted(ctx: BodyContext, node: ast.Constant) -> ast.expr:
    """The expression inside a quoted annotation; every part of it points at the quotes."""
    assert isinstance(node.value, str)
    try:
        tree = ast.parse(node.value, mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise ctx.error(node, f"the annotation {node.value!r} is no expression: {error}") from None
    for part in ast.walk(tree):
        if isinstance(part, (ast.expr, ast.keyword)):
            ast.copy_location(part, node)
    return tree
