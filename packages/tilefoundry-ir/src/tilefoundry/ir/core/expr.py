"""Nodes of a function body: a straight list of named values (administrative normal form).

Every operand is an atom (``Var`` or ``Constant``), every intermediate has a name that is unique in its
function, so a value used twice is shared by construction and structural equality is linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Union

from tilefoundry.ir.core.exact import exact
from tilefoundry.ir.types import Dim, DimVar, TensorType, Type

if TYPE_CHECKING:
    from tilefoundry.ir.core.op import Op
    from tilefoundry.ir.hir.function import Function
    from tilefoundry.ir.tir.function import PrimFunction

__all__ = [
    "Atom",
    "Bind",
    "Block",
    "Call",
    "Carry",
    "Constant",
    "Expr",
    "For",
    "FunctionCall",
    "MeshScope",
    "Stmt",
    "Var",
    "walk_stmts",
]


@dataclass(frozen=True, slots=True)
class Expr:
    """Base of everything that has a type."""

    type: Type


@dataclass(frozen=True, slots=True)
class Var(Expr):
    """A named value: parameter, intermediate, loop variable or carried value.

    ``is_const`` marks a weight (``ConstTensor``); it carries no data.
    """

    name: str
    is_const: bool = False

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Constant(Expr):
    """A rank-0 literal; ``value`` is an int, float or bool and ``type.dtype`` the type it was given."""

    value: int | float | bool

    def __eq__(self, other: object) -> bool:
        """Equal where type, Python type and spelling agree, so that NaN equals NaN and 0.0 differs from -0.0."""
        return (
            isinstance(other, Constant)
            and self.type == other.type
            and type(self.value) is type(other.value)
            and repr(self.value) == repr(other.value)
        )

    def __hash__(self) -> int:
        return hash((self.type, repr(self.value)))


Atom = Union[Var, Constant]


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """An op applied to atoms.

    Attributes:
        op: the schema, with its type rule and evaluator.
        args: operands in schema order; a variadic op lists them all.
        attrs: (name, value) in schema order, defaults filled in.
    """

    op: Op
    args: tuple[Atom, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    def __eq__(self, other: object) -> bool:
        """Equal where types, op, operands and attributes are; numbers among these as ``Constant`` compares them."""
        return (
            isinstance(other, Call)
            and (self.type, self.op, self.args) == (other.type, other.op, other.args)
            and exact(self.attrs) == exact(other.attrs)
        )

    def __hash__(self) -> int:
        return hash((self.type, self.op, self.args, exact(self.attrs)))

    def attr(self, name: str) -> Any:
        """The attribute called ``name``; KeyError where the op has none."""
        return dict(self.attrs)[name]


@dataclass(frozen=True, slots=True)
class FunctionCall(Expr):
    """A call of another function.

    Attributes:
        callee: the function called, or the statements of a kernel, whose outputs are the call's value.
        path: how the caller's module reaches it: ``("f",)`` a sibling, ``("child", "f")`` a child's
            function; the last part is always the function's name.
        args: one atom per parameter that the caller passes: every parameter of a sibling, activations
            alone where ``path`` enters a child; of statements, what they read.
    """

    callee: Function | PrimFunction
    path: tuple[str, ...]
    args: tuple[Atom, ...]

    @property
    def enters_child(self) -> bool:
        """True where the callee's constants belong to a child module and are not passed."""
        return len(self.path) > 1


@dataclass(frozen=True, slots=True)
class Bind:
    """``target = value``."""

    target: Var
    value: Call | FunctionCall


@dataclass(frozen=True, slots=True)
class Carry:
    """A value that a loop threads through: ``initial`` before it, ``inner`` inside, ``result`` after it."""

    initial: Atom
    inner: Var
    result: Var


@dataclass(frozen=True, slots=True)
class For:
    """A counted loop.

    Attributes:
        kind: ``"range"`` (``index`` is a scalar) or ``"tile"`` (``index`` is a window of ``step`` elements).
        index: the loop variable, an i64 scalar: the element index (tile: the first element's index).
        start, stop, step: extents of the loop; ``start`` and ``step`` are integers or dims.
        carries: values rebound by the body.
        body: statements; its results are the carried values' next values, in order.
        over: name of the mesh axis that takes tiles in turn, as ``"scope.axis"``, or None.
        window: the extent of a tile where the last one may be cut at the edge: ``min(step, stop - index)``;
            None where every tile has ``step`` elements.
    """

    kind: str
    index: Var
    start: Dim
    stop: Dim
    step: Dim
    carries: tuple[Carry, ...]
    body: Block
    over: str | None = None
    window: DimVar | None = None


@dataclass(frozen=True, slots=True)
class MeshScope:
    """``with mesh as name:`` around statements; names bound inside stay visible after it."""

    name: str
    mesh: Any
    stmts: tuple[Stmt, ...]


Stmt = Union[Bind, For, MeshScope]


@dataclass(frozen=True, slots=True)
class Block:
    """Statements and the atoms they yield."""

    stmts: tuple[Stmt, ...] = ()
    results: tuple[Atom, ...] = field(default=())


def walk_stmts(stmts: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer before inner, in program order."""
    for stmt in stmts:
        yield stmt
        if isinstance(stmt, MeshScope):
            yield from walk_stmts(stmt.stmts)
        elif isinstance(stmt, For):
            yield from walk_stmts(stmt.body.stmts)


def tensor_type(value: Expr) -> TensorType:
    """The type of a value that must be a tensor; TypeError for a tuple."""
    if not isinstance(value.type, TensorType):
        raise TypeError(f"a tensor is needed here, got {value.type}")
    return value.type
