"""Read one ``def`` as a statement-level program."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from tilefoundry.dsl.expressions import EXPRESSIONS
from tilefoundry.dsl.meshes import MESH_EXPRESSIONS
from tilefoundry.dsl.names import NameSupply
from tilefoundry.dsl.operators import OPERATORS
from tilefoundry.dsl.prim.buffers import Buffer, load
from tilefoundry.dsl.prim.calls import PRIM_CALLS
from tilefoundry.dsl.prim.context import PrimContext
from tilefoundry.dsl.prim.scalars import apply_scalar
from tilefoundry.dsl.prim.statements import PRIM_STATEMENTS
from tilefoundry.dsl.prim.tiles import read_generator
from tilefoundry.dsl.reader import RESERVED_NAMES
from tilefoundry.dsl.scope import Enclosure
from tilefoundry.dsl.signature import read_params
from tilefoundry.dsl.source import SourceFile, load_source
from tilefoundry.dsl.subscripts import SUBSCRIPTS
from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.errors import VerificationError
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.tir.verify import verify_prim_function
from tilefoundry.ir.types import scalar

__all__ = ["PrimReading", "read_prim_definition"]


@dataclass(frozen=True, slots=True)
class PrimReading:
    """A function that was read, and where it stands."""

    function: PrimFunction
    source: SourceFile
    node: ast.FunctionDef


def _read_subscript(ctx: PrimContext, node: ast.Subscript, hint: str | None) -> Any:
    base = ctx.read(node.value)
    if isinstance(base, Buffer):
        return load(ctx, node, base)
    return SUBSCRIPTS[ast.Subscript](ctx, node, hint)


_EXPRESSIONS = {
    **EXPRESSIONS,
    **OPERATORS,
    **PRIM_CALLS,
    **MESH_EXPRESSIONS,
    ast.Subscript: _read_subscript,
    ast.GeneratorExp: read_generator,
}


def read_prim_definition(
    function: FunctionType, enclosure: Enclosure, in_force: tuple[Any, ...] | None
) -> PrimReading:
    """Parse and check ``function`` from its source.

    Raises:
        DslError: the source is not available, or is no statement-level program; it says where.
    """
    source = load_source(function.__code__, function.__globals__)
    node = source.definition(function.__code__)
    if not isinstance(node, ast.FunctionDef):
        raise source.error(node, f"{node.name} must be a plain def")
    ctx = PrimContext(source, enclosure, NameSupply(), _EXPRESSIONS, PRIM_STATEMENTS, apply_scalar, in_force)
    if node.returns is not None and not _is_none(node.returns):
        raise source.error(node.returns, "a @prim_func returns nothing: it stores to its last parameters")
    try:
        return PrimReading(_read(ctx, node), source, node)
    except RecursionError:
        raise source.error(
            node, f"{node.name} nests expressions too deeply; name intermediate values"
        ) from None


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _read(ctx: PrimContext, node: ast.FunctionDef) -> PrimFunction:
    params = read_params(ctx, node)
    dims = [dim.name for dim in ctx.dims]
    ctx.names = NameSupply([*(param.name for param in params), *dims, *RESERVED_NAMES])
    ctx.indices.update({name: Var(scalar("i64"), name) for name in dims})
    ctx.locals.update((param.name, Buffer(param)) for param in params)
    ctx.run(node.body)
    function = PrimFunction(node.name, params, tuple(ctx.stmts), _output_count(ctx, node, params))
    try:
        verify_prim_function(function)
    except VerificationError as error:
        raise ctx.error(node, str(error)) from None
    return function


def _output_count(ctx: PrimContext, node: ast.FunctionDef, params: Sequence[Var]) -> int:
    """How many trailing parameters the body writes; inputs come before outputs."""
    written = [param.name in ctx.written for param in params]
    count = sum(written)
    if any(written[: len(params) - count]):
        names = ", ".join(param.name for param, is_written in zip(params, written, strict=True) if is_written)
        raise ctx.error(
            node, f"{node.name} stores to {names}; what a @prim_func writes are its last parameters"
        )
    for param, is_written in zip(params, written, strict=True):
        if is_written and param.is_const:
            raise ctx.error(node, f"{node.name} stores to the weight {param.name}")
    return count
