"""Calls of functions: pass arguments, match extents, give the result its type."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilefoundry.dsl.children import FunctionRef, callee_of
from tilefoundry.dsl.context import BodyContext, describe, is_value
from tilefoundry.dsl.literals import constant, is_number
from tilefoundry.ir.core.expr import Atom, FunctionCall, Var
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.types import (
    Dim,
    DimExpr,
    DimVar,
    TensorType,
    TupleType,
    Type,
    bounds,
    dim_vars,
    substitute,
)
from tilefoundry.ir.types.dim import floordiv
from tilefoundry.ir.types.shard import holds_instances

__all__ = ["call_function"]


def call_function(
    ctx: BodyContext,
    node: ast.AST,
    ref: FunctionRef,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    hint: str | None,
) -> Var:
    """Append a call: of a sibling with all its parameters, of a child's function with its activations, of statements
    with what they read.

    Raises DslError at ``node`` for a wrong count, dtype or extent.
    """
    label = ".".join(ref.path)
    with ctx.pointing_at(node):
        function = callee_of(ref)
        own = len(ref.path) > 1 or isinstance(function, PrimFunction)
        params = function.activations if own else function.params
        hides = len(ref.path) > 1 and bool(function.constants)
        given = _assign(label, params, args, kwargs, hides)
        atoms = tuple(_atom(label, param, value) for param, value in zip(params, given, strict=True))
        env = match_extents(label, params, atoms)
        result = substitute_type(function.result, env)
    return ctx.emit(FunctionCall(result, function, ref.path, atoms), node, hint)


def match_extents(label: str, params: Sequence[Var], atoms: Sequence[Atom]) -> dict[str, Dim]:
    """DimVar name -> the caller's extent, such that every argument has its parameter's type.

    Raises TypeError naming the parameter whose dtype, rank or extent does not agree.
    """
    env: dict[str, Dim] = {}
    for param, atom in zip(params, atoms, strict=True):
        declared, actual = _tensor_types(label, param, atom)
        for want, have in zip(declared.shape, actual.shape, strict=True):
            if isinstance(want, DimVar):
                _bind(label, param, want, have, env)
    for param, atom in zip(params, atoms, strict=True):
        declared, actual = _tensor_types(label, param, atom)
        for want, have in zip(declared.shape, actual.shape, strict=True):
            _check_extent(label, param, want, have, env, actual)
    return env


def substitute_type(type_: Type, env: Mapping[str, Dim]) -> Type:
    """``type_`` with its DimVars replaced by the caller's extents."""
    if isinstance(type_, TupleType):
        return TupleType(tuple(substitute_type(element, env) for element in type_.elements))
    return replace(type_, shape=tuple(d if isinstance(d, int) else substitute(d, env) for d in type_.shape))


def _assign(
    label: str, params: Sequence[Var], args: Sequence[Any], kwargs: Mapping[str, Any], hides: bool
) -> list[Any]:
    names = [p.name for p in params]
    takes = f"{label} takes {len(names)} arguments ({', '.join(names)})"
    if hides:
        takes += ", activations only: a child's weights belong to the child"
    if len(args) > len(names):
        raise TypeError(f"{takes}, got {len(args)}")
    given = dict(zip(names, args, strict=False))
    for name, value in kwargs.items():
        if name not in names:
            raise TypeError(f"{takes}; there is no {name!r}")
        if name in given:
            raise TypeError(f"{takes}; {name} is given by position and by keyword")
        given[name] = value
    missing = [name for name in names if name not in given]
    if missing:
        raise TypeError(f"{takes}, got {len(given)}: {', '.join(missing)} missing")
    return [given[name] for name in names]


def _atom(label: str, param: Var, value: Any) -> Atom:
    if is_value(value):
        return value
    if is_number(value) and isinstance(param.type, TensorType) and param.type.rank == 0:
        return constant(value, param.type.dtype)
    raise TypeError(f"{label}: {param.name} is {param.type}, got {describe(value)}")


def _tensor_types(label: str, param: Var, atom: Atom) -> tuple[TensorType, TensorType]:
    declared, actual = param.type, atom.type
    assert isinstance(declared, TensorType)
    if not isinstance(actual, TensorType):
        raise TypeError(f"{label}: {param.name} is {declared}, got the tuple {actual}; take an element of it")
    if declared.dtype is not actual.dtype:
        raise TypeError(f"{label}: {param.name} is {declared}, got {actual}; use tf.cast")
    if declared.rank != actual.rank:
        raise TypeError(f"{label}: {param.name} is {declared}, got {actual}: ranks differ")
    if holds_instances(actual):
        raise TypeError(
            f"{label}: {param.name} got {actual}, what one instance holds; fold it back with tf.reshard"
        )
    if declared.layout is not None and declared.layout != actual.layout:
        raise TypeError(
            f"{label}: {param.name} is laid out as {declared.layout}, got {actual}; use tf.reshard"
        )
    return declared, actual


def _bind(label: str, param: Var, var: DimVar, extent: Dim, env: dict[str, Dim]) -> None:
    known = env.setdefault(var.name, extent)
    if known != extent:
        raise TypeError(
            f"{label}: {param.name} makes {var.name} = {extent}, an argument before it made it {known}"
        )
    low, high = bounds(extent)
    if low < var.lo or high >= var.hi:
        raise TypeError(
            f"{label}: {param.name} makes {var.name} = {extent}, which lies in [{low}, {high + 1}), "
            f"but {var.name} is declared [{var.lo}, {var.hi}) there; make the ranges agree"
        )


def _check_extent(
    label: str, param: Var, want: Dim, have: Dim, env: dict[str, Dim], actual: TensorType
) -> None:
    expected = want if isinstance(want, int) else substitute(want, env)
    unbound = [var for var in dim_vars(expected) if var.name not in env] if expected != have else []
    if len(unbound) == 1 and isinstance(expected, DimExpr):
        _solve(label, param, expected, unbound[0], have, env)
        expected = substitute(want, env)
    if expected != have:
        raise TypeError(
            f"{label}: {param.name} is {param.type}, got {actual}: extent {have} where {expected} is expected"
        )


def _solve(label: str, param: Var, expected: DimExpr, var: DimVar, have: Dim, env: dict[str, Dim]) -> None:
    """Bind a variable that only expressions mention, where it occurs once and linearly."""
    rest = substitute(expected, {var.name: 0})
    factor = substitute(expected, {var.name: 1}) - rest
    if isinstance(factor, int) and factor > 0:
        _bind(label, param, var, floordiv(have - rest, factor), env)
