"""Read one ``def`` into parameters, result type and body."""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tilefoundry.dsl.calls import CALLS
from tilefoundry.dsl.context import BodyContext
from tilefoundry.dsl.expressions import EXPRESSIONS
from tilefoundry.dsl.loops import LOOPS
from tilefoundry.dsl.meshes import MESH_EXPRESSIONS, MESHES
from tilefoundry.dsl.names import NameSupply
from tilefoundry.dsl.operators import OPERATORS
from tilefoundry.dsl.ops import call_op
from tilefoundry.dsl.scope import Enclosure
from tilefoundry.dsl.signature import read_params, read_result
from tilefoundry.dsl.source import SourceFile, load_source
from tilefoundry.dsl.statements import STATEMENTS
from tilefoundry.dsl.subscripts import SUBSCRIPTS
from tilefoundry.ir.core.expr import Block, Var
from tilefoundry.ir.types import TupleType, Type

__all__ = ["RESERVED_NAMES", "Reading", "read_definition"]

_EXPRESSIONS = {**EXPRESSIONS, **OPERATORS, **CALLS, **SUBSCRIPTS, **MESH_EXPRESSIONS}
_STATEMENTS = {**STATEMENTS, **LOOPS, **MESHES}
# Names that the text of a program refers to; a value never takes them.
RESERVED_NAMES = (
    "tf",
    "T",
    "Tensor",
    "ConstTensor",
    "DimVar",
    "Mesh",
    "range",
    "tile",
    "tuple",
    "func",
    "module",
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a ``def`` says.

    Attributes:
        name, params, result, body: as in ``Function``; ``body`` is None where the def has
            ``pass`` or a docstring alone.
        source, node: where it stands, for errors found later.
    """

    name: str
    params: tuple[Var, ...]
    result: Type
    body: Block | None
    source: SourceFile
    node: ast.FunctionDef


def read_definition(
    function: FunctionType, enclosure: Enclosure, topologies: tuple[Any, ...] | None = None
) -> Reading:
    """Parse and type ``function`` from its source.

    Raises:
        DslError: the source is not available, or is not a program; it points at file, line and column.
    """
    source = load_source(function.__code__, function.__globals__)
    node = source.definition(function.__code__)
    if not isinstance(node, ast.FunctionDef):
        raise source.error(node, f"{node.name} must be a plain def")
    ctx = BodyContext(source, enclosure, NameSupply(), _EXPRESSIONS, _STATEMENTS, call_op, topologies)
    try:
        return _read(ctx, node)
    except RecursionError:
        raise source.error(
            node, f"{node.name} nests expressions too deeply; name intermediate values"
        ) from None


def _read(ctx: BodyContext, node: ast.FunctionDef) -> Reading:
    params = read_params(ctx, node)
    _reserve(ctx, params)
    ctx.result = read_result(ctx, node)
    if _is_empty(node):
        if ctx.result is None:
            raise ctx.error(
                node, f"{node.name} has neither a body nor a result type; declare what its variants return"
            )
        return Reading(node.name, params, ctx.result, None, ctx.source, node)
    ctx.locals.update((param.name, param) for param in params)
    ctx.run(node.body)
    if ctx.returned is None:
        raise ctx.error(node, f"{node.name} returns nothing; end it with return")
    return Reading(node.name, params, _result(ctx), Block(tuple(ctx.stmts), ctx.returned), ctx.source, node)


def _reserve(ctx: BodyContext, params: tuple[Var, ...]) -> None:
    names = [param.name for param in params]
    dims = {dim.name for dim in ctx.dims}
    ctx.names = NameSupply([*names, *dims, *RESERVED_NAMES])


def _is_empty(node: ast.FunctionDef) -> bool:
    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
    return all(isinstance(stmt, ast.Pass) for stmt in body)


def _result(ctx: BodyContext) -> Type:
    assert ctx.returned is not None
    if ctx.result is not None:
        return ctx.result
    types = tuple(atom.type for atom in ctx.returned)
    return TupleType(types) if ctx.returns_tuple else types[0]
