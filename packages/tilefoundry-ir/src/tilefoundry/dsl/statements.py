"""Assignments, ``return``, branches that are decided while reading."""

from __future__ import annotations

import ast
from typing import Any

from tilefoundry.dsl.annotations import TensorAnnotation
from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.expressions import bind_target, is_tuple_value, unpack
from tilefoundry.dsl.extents import truth
from tilefoundry.dsl.literals import constant, is_number
from tilefoundry.dsl.operators import apply_binary
from tilefoundry.dsl.unrolling import static_items
from tilefoundry.ir.core.expr import Atom
from tilefoundry.ir.types import StorageKind, TensorType, TupleType, Type
from tilefoundry.ir.types.shard import holds_instances

__all__ = ["STATEMENTS", "check_declared"]


def _read_assign(ctx: BodyContext, node: ast.Assign) -> None:
    first = node.targets[0]
    if isinstance(first, (ast.Tuple, ast.List)):
        value: Any = _parts_with_hints(ctx, first, node.value)
    else:
        value = ctx.read(node.value, first.id if isinstance(first, ast.Name) else None)
    for target in node.targets:
        bind_target(ctx, target, value)


def _parts_with_hints(ctx: BodyContext, target: ast.Tuple | ast.List, value: ast.expr) -> tuple[Any, ...]:
    """The parts of ``a, b = value``; each IR value that the statement makes is named after its target."""
    hints = [part.id if isinstance(part, ast.Name) else None for part in target.elts]
    plain = isinstance(value, ast.Tuple) and not any(isinstance(e, ast.Starred) for e in value.elts)
    if plain and len(value.elts) == len(hints):  # type: ignore[attr-defined]  # a Tuple by the line above
        return tuple(ctx.read(e, hint) for e, hint in zip(value.elts, hints, strict=True))  # type: ignore[attr-defined]  # as above
    return tuple(unpack(ctx, target, ctx.read(value), len(hints)))


def _read_aug_assign(ctx: BodyContext, node: ast.AugAssign) -> None:
    if not isinstance(node.target, ast.Name):
        bind_target(ctx, node.target, None)
        raise ctx.error(node.target, "only names are assigned to")
    current = ctx.read(ast.copy_location(ast.Name(node.target.id, ast.Load()), node.target))
    value = ctx.read(node.value)
    ctx.locals[node.target.id] = apply_binary(ctx, node, node.op, current, value, node.target.id)


def _read_ann_assign(ctx: BodyContext, node: ast.AnnAssign) -> None:
    if not isinstance(node.target, ast.Name) or node.value is None:
        raise ctx.error(node, "an annotated assignment needs one name and a value: y: Tensor[...] = ...")
    annotation = ctx.read(node.annotation)
    if not isinstance(annotation, TensorAnnotation) or annotation.is_const:
        raise ctx.error(
            node.annotation, f"a local value is declared as Tensor[...], got {describe(annotation)}"
        )
    with ctx.pointing_at(node.annotation):
        declared = annotation.resolve()
    value = ctx.read(node.value, node.target.id)
    if not is_value(value):
        raise ctx.error(node.value, f"{node.target.id} is declared {declared}, got {describe(value)}")
    check_declared(ctx, node.value, node.target.id, declared, value.type)
    ctx.locals[node.target.id] = value


def _read_return(ctx: BodyContext, node: ast.Return) -> None:
    if ctx.loop_depth:
        raise ctx.error(
            node, "return inside a loop is not part of the DSL; return once, at the end of the function"
        )
    if node.value is None:
        raise ctx.error(node, "a function returns a value; write return x")
    value = ctx.read(node.value)
    if isinstance(value, list) or value == ():
        raise ctx.error(node.value, f"return one tensor or a tuple of tensors, got {describe(value)}")
    several = isinstance(value, tuple) or is_tuple_value(value)
    parts = static_items(ctx, node.value, value) if several else [value]
    declared = _declared_parts(ctx, node, parts, several)
    ctx.returned = tuple(
        _returned(ctx, node.value, part, want, f"result {i}" if several else "the result")
        for i, (part, want) in enumerate(zip(parts, declared, strict=True))
    )
    ctx.returns_tuple = several


def _declared_parts(ctx: BodyContext, node: ast.Return, parts: list[Any], several: bool) -> list[Type | None]:
    if ctx.result is None:
        return [None] * len(parts)
    if isinstance(ctx.result, TupleType) != several:
        raise ctx.error(
            node, f"the function declares {ctx.result}, this returns {'a tuple' if several else 'one value'}"
        )
    if not isinstance(ctx.result, TupleType):
        return [ctx.result]
    if len(ctx.result.elements) != len(parts):
        raise ctx.error(node, f"the function declares {ctx.result}, this returns {len(parts)} values")
    return list(ctx.result.elements)


def _returned(ctx: BodyContext, node: ast.expr, value: Any, declared: Type | None, what: str) -> Atom:
    if is_number(value) and isinstance(declared, TensorType) and declared.rank == 0:
        with ctx.pointing_at(node):
            return constant(value, declared.dtype)
    if not is_value(value):
        raise ctx.error(node, f"{what} must be a tensor, got {describe(value)}")
    if holds_instances(value.type):
        raise ctx.error(
            node, f"{what} is {value.type}, what one instance holds; fold it back with tf.reshard"
        )
    if declared is not None:
        check_declared(ctx, node, what, declared, value.type)
    return value


def check_declared(ctx: BodyContext, node: ast.AST, what: str, declared: Type, actual: Type) -> None:
    """DslError where ``actual`` differs from ``declared``; an undeclared layout or storage takes any."""
    if not declared.same_value_type(actual):
        raise ctx.error(node, f"{what} is {actual}, declared {declared}; make them equal")
    if not isinstance(declared, TensorType) or not isinstance(actual, TensorType):
        return
    if declared.layout is not None and declared.layout != actual.layout:
        raise ctx.error(
            node, f"{what} is laid out as {actual.layout}, declared {declared.layout}; use tf.reshard"
        )
    if (
        StorageKind.UNDECIDED not in (declared.storage, actual.storage)
        and declared.storage is not actual.storage
    ):
        raise ctx.error(node, f"{what} lies in {actual.storage}, declared {declared.storage}; use tf.reshard")


def _read_if(ctx: BodyContext, node: ast.If) -> None:
    ctx.run(node.body if truth(ctx, node.test, ctx.read(node.test)) else node.orelse)


def _read_pass(ctx: BodyContext, node: ast.Pass) -> None:
    """``pass`` says nothing."""


def _read_expression_statement(ctx: BodyContext, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return
    raise ctx.error(node, "the value of this statement is not used; assign it to a name or return it")


STATEMENTS = {
    ast.Assign: _read_assign,
    ast.AugAssign: _read_aug_assign,
    ast.AnnAssign: _read_ann_assign,
    ast.Return: _read_return,
    ast.If: _read_if,
    ast.Pass: _read_pass,
    ast.Expr: _read_expression_statement,
}
