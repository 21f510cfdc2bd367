"""The machine that reads one function body: its names, its statements so far, and its dispatch tables."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tilefoundry.dsl.names import NameSupply
from tilefoundry.dsl.scope import Enclosure
from tilefoundry.dsl.source import SourceFile
from tilefoundry.ir.core.expr import Atom, Bind, Call, Constant, Expr, FunctionCall, Var
from tilefoundry.ir.errors import DslError, TileFoundryError
from tilefoundry.ir.types import DimVar, TensorType, TupleType, Type, dim_vars, type_dim_vars

__all__ = ["BodyContext", "describe", "is_value"]

# Readers of statement-level programs take their own, wider context.
ReadExpression = Callable[[Any, Any, "str | None"], Any]
ReadStatement = Callable[[Any, Any], None]
ApplyOp = Callable[["BodyContext", ast.AST, str, Sequence[Any], Mapping[str, Any], "str | None"], Any]


@dataclass(slots=True)
class BodyContext:
    """State while one function is read; one thread at a time.

    An expression reads either as an IR value (an ``Expr``: a ``Var``, or a ``Constant``) or as an ordinary
    Python object that is known while the program is read.

    Attributes:
        source: where error positions point.
        enclosure: the names around the definition.
        names: gives IR values unique names.
        expressions, statements: AST class -> reader.
        apply: makes the value of an op that an operator stands for.
        locals: names that the body has bound so far.
        stmts: the statement list being filled.
        dims: the DimVars that parameters (and loop indices in force) bind.
        topologies: the levels in force, or None where nobody declared any.
        indices: DimVar name -> value of the loop indices among ``dims``.
        result: the declared result type, or None.
        returned: the result's values once ``return`` was read, and ``returns_tuple`` whether it gave several.
        loop_depth: how many loops surround the statement being read.
        scopes: the (name, mesh) of the ``with`` statements around the one being read.
        gone: names that only a finished loop bound, and what to say about them.
    """

    source: SourceFile
    enclosure: Enclosure
    names: NameSupply
    expressions: Mapping[type, ReadExpression]
    statements: Mapping[type, ReadStatement]
    apply: ApplyOp
    topologies: tuple[Any, ...] | None = None
    locals: dict[str, Any] = field(default_factory=dict)
    stmts: list[Any] = field(default_factory=list)
    dims: set[DimVar] = field(default_factory=set)
    indices: dict[str, Var] = field(default_factory=dict)
    result: Type | None = None
    returned: tuple[Atom, ...] | None = None
    returns_tuple: bool = False
    loop_depth: int = 0
    scopes: list[tuple[str, Any]] = field(default_factory=list)
    gone: dict[str, str] = field(default_factory=dict)

    def read(self, node: ast.expr, hint: str | None = None) -> Any:
        """The value of an expression; ``hint`` names the IR value that it makes, if it makes one."""
        reader = self.expressions.get(type(node))
        if reader is None:
            raise self.error(node, f"{_construct(node)} is not part of the DSL; {_EXPRESSIONS}")
        return reader(self, node, hint)

    def read_static(self, node: ast.expr, what: str) -> Any:
        """The value of an expression that must be known while the program is read."""
        value = self.read(node)
        if is_value(value):
            raise self.error(
                node, f"{what} must be known while the program is read, got the tensor {describe(value)}"
            )
        return value

    def run(self, body: list[ast.stmt]) -> None:
        """Read statements in order."""
        for node in body:
            reader = self.statements.get(type(node))
            if reader is None:
                raise self.error(node, f"{_construct(node)} is not part of the DSL; {_STATEMENTS}")
            if self.returned is not None:
                raise self.error(
                    node, "nothing can follow return; the result is the last statement of a function"
                )
            reader(self, node)

    def emit(self, value: Call | FunctionCall, node: ast.AST, hint: str | None = None) -> Var:
        """Append ``name = value`` and give the new name; every extent in its type must be bound."""
        self.check_bound(value.type, node)
        target = Var(value.type, self.names.temporary() if hint is None else self.names.take(hint))
        self.stmts.append(Bind(target, value))
        return target

    def check_bound(self, type_: Type, node: ast.AST) -> None:
        """DslError where ``type_`` mentions a DimVar that no parameter's shape gives a value."""
        for var in type_dim_vars(type_):
            self.check_dim(var, node)

    def check_dim(self, dim: Any, node: ast.AST) -> None:
        """DslError where ``dim`` mentions a DimVar that no parameter's shape gives a value."""
        for var in dim_vars(dim):
            if var not in self.dims:
                self._refuse_dim(var, node)

    def _refuse_dim(self, var: DimVar, node: ast.AST) -> None:
        twin = next((d for d in self.dims if d.name == var.name), None)
        if twin is not None:
            raise self.error(
                node,
                f"{var.name} has the range [{var.lo}, {var.hi}) here and [{twin.lo}, {twin.hi}) in a parameter; "
                "one name has one range",
            )
        raise self.error(
            node, f"no parameter's shape gives the extent {var.name} a value; add it to a parameter"
        )

    @contextmanager
    def collecting(self) -> Iterator[list[Any]]:
        """Collect the statements of an inner block instead of appending them here."""
        outer, self.stmts = self.stmts, []
        try:
            yield self.stmts
        finally:
            self.stmts = outer

    def place_of(self, node: Any) -> tuple[str, int]:
        """File and line of ``node``."""
        return self.source.filename, node.lineno

    def error(self, node: ast.AST, message: str) -> DslError:
        """An error that points at ``node``."""
        return self.source.error(node, message)

    @contextmanager
    def pointing_at(self, node: ast.AST) -> Iterator[None]:
        """Turn what a type rule or a Python call raises into a DslError at ``node``."""
        try:
            yield
        except DslError:
            raise
        except (TileFoundryError, TypeError, ValueError) as error:
            raise self.error(node, str(error)) from None
        except Exception as error:
            raise self.error(node, f"{type(error).__name__}: {error}") from error


def is_value(value: Any) -> bool:
    """True for an IR value, false for a Python object known while the program is read."""
    return isinstance(value, Expr)


def describe(value: Any) -> str:
    """A short description of a value for messages: name and type of a tensor, the repr of a Python object."""
    if isinstance(value, Var):
        return f"{value.name}: {value.type}"
    if isinstance(value, Constant):
        return f"{value.value!r}: {value.type}"
    if isinstance(value, (TensorType, TupleType)):
        return str(value)
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


_EXPRESSIONS = (
    "expressions are names, numbers, + - * / // % ** @ & |, comparisons, slices, tuples, list comprehensions, "
    "tf calls, and calls of functions and child modules defined above"
)
_STATEMENTS = (
    "statements are assignments, for loops over range(...), tile(...) or a tuple, with Mesh(...) as name, "
    "and one return"
)
_NAMES = {
    "Lambda": "a lambda",
    "JoinedStr": "an f-string",
    "NamedExpr": "an assignment expression",
    "FunctionDef": "a nested def",
    "ClassDef": "a nested class",
    "While": "a while loop",
    "Try": "try",
    "Import": "an import",
    "ImportFrom": "an import",
    "Global": "global",
    "Nonlocal": "nonlocal",
    "Delete": "del",
    "Raise": "raise",
    "Dict": "a dict",
    "Set": "a set",
    "DictComp": "a dict comprehension",
    "SetComp": "a set comprehension",
    "Starred": "a starred value here",
    "Await": "await",
    "Yield": "yield",
    "YieldFrom": "yield",
    "Assert": "assert",
    "Match": "match",
}


def _construct(node: ast.AST) -> str:
    name = type(node).__name__
    return _NAMES.get(name, f"this {name}")
