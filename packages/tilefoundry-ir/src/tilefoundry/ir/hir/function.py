"""A HIR function: typed parameters, a pure body, its weight converters and its specialised variants."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tilefoundry.ir.core.expr import Block, Stmt, Var, walk_stmts
from tilefoundry.ir.core.pattern import DimVarRangePat
from tilefoundry.ir.types import DimVar, Type, type_dim_vars

__all__ = ["Function", "Variant"]


@dataclass(frozen=True, slots=True)
class Variant:
    """One specialised body and the range of the DimVar for which it is taken."""

    pattern: DimVarRangePat
    function: Function


class Function:
    """A typed tensor program.

    Attributes:
        name: its name in the module.
        params: parameters in order, weights (``is_const``) among them.
        result: the type it returns; a ``TupleType`` for several outputs.
        body: statements and results; None on a base whose ``variants`` hold the bodies.
        topologies: the levels it declares itself, or None to take its module's.
        target: the Target that its declaration names, or None.
        converters: weight name -> function from raw checkpoint tensors to that weight.
        variants: specialised bodies, in declaration order.
        plan: what the evaluator worked out about the body, or None; no part of the program.

    A Module seals the functions that it takes in: nothing but ``plan`` changes from then on. Two functions are
    equal where all of the above but ``plan`` is.
    """

    __slots__ = (
        "_converters",
        "_sealed",
        "_variants",
        "body",
        "name",
        "params",
        "plan",
        "result",
        "target",
        "topologies",
    )

    def __init__(
        self,
        name: str,
        params: tuple[Var, ...],
        result: Type,
        body: Block | None,
        *,
        topologies: tuple[Any, ...] | None = None,
        target: Any | None = None,
        converters: Mapping[str, Function] | None = None,
        variants: tuple[Variant, ...] = (),
    ) -> None:
        self._sealed = False
        self.name = name
        self.params = tuple(params)
        self.result = result
        self.body = body
        self.topologies = topologies
        self.target = target
        self._converters = dict(converters or {})
        self._variants = list(variants)
        self.plan: Any | None = None

    def __setattr__(self, name: str, value: object) -> None:
        if name != "plan" and getattr(self, "_sealed", False):
            raise AttributeError(
                f"{self.name} belongs to a Module and is sealed; build another Function instead of setting {name!r}"
            )
        object.__setattr__(self, name, value)

    @property
    def converters(self) -> Mapping[str, Function]:
        """Weight name -> converter, read-only."""
        return MappingProxyType(self._converters)

    @property
    def variants(self) -> tuple[Variant, ...]:
        """Specialised bodies, in declaration order."""
        return tuple(self._variants)

    @property
    def activations(self) -> tuple[Var, ...]:
        """The parameters that a caller passes: every one that is no weight."""
        return tuple(p for p in self.params if not p.is_const)

    @property
    def constants(self) -> tuple[Var, ...]:
        """The weight parameters."""
        return tuple(p for p in self.params if p.is_const)

    @property
    def sealed(self) -> bool:
        """True once a Module holds the function; it is then fixed."""
        return self._sealed

    def seal(self) -> None:
        """Fix the function; called by the Module that takes it in."""
        if not self._sealed:
            self._sealed = True

    def add_converter(self, weight: str, converter: Function) -> None:
        """Register the converter of ``weight``.

        Raises:
            ValueError: no such weight, a second converter for it, a wrong result type, a sealed function.
        """
        self._refuse_sealed(f"a converter for {weight!r}")
        const = {p.name: p for p in self.constants}
        if weight not in const:
            names = ", ".join(const) or "none"
            raise ValueError(f"{self.name} has no weight {weight!r} to convert; its weights: {names}")
        if weight in self._converters:
            raise ValueError(
                f"{self.name}: the weight {weight!r} already has a converter; keep one of the two"
            )
        declared = const[weight].type
        if not declared.same_value_type(converter.result):
            raise ValueError(
                f"{self.name}.{weight}: the converter returns {converter.result}, "
                f"the weight is declared {declared}; make them equal"
            )
        self._converters[weight] = converter

    def add_variant(self, variant: Variant) -> None:
        """Append a specialised body; ValueError once sealed."""
        self._refuse_sealed("a variant")
        self._variants.append(variant)

    def dim_vars(self) -> tuple[DimVar, ...]:
        """Every DimVar of the parameter types, in order of first appearance."""
        return tuple(dict.fromkeys(v for p in self.params for v in type_dim_vars(p.type)))

    def stmts(self) -> tuple[Stmt, ...]:
        """Every statement of the body, nested ones included, in program order."""
        return () if self.body is None else tuple(walk_stmts(self.body.stmts))

    def _refuse_sealed(self, what: str) -> None:
        if self._sealed:
            raise ValueError(
                f"{self.name} belongs to a Module and is sealed; add {what} before the Module is built"
            )

    def _key(self) -> tuple[Any, ...]:
        return (self.name, self.params, self.result, self.topologies, self.target)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Function):
            return NotImplemented
        return _compared_once(self, other)

    def _same_as(self, other: Function) -> bool:
        return (
            self._key() == other._key()
            and self.body == other.body
            and self._converters == other._converters
            and self._variants == other._variants
        )

    def __hash__(self) -> int:
        return hash((self.name, self.params, self.result))

    def __repr__(self) -> str:
        params = ", ".join(f"{p.name}: {p.type}" for p in self.params)
        return f"Function({self.name}({params}) -> {self.result})"

    def __call__(self, *args: Any) -> Any:
        raise TypeError(
            f"{self.name} is a TileFoundry function, not a Python one: run it with "
            f"tilefoundry.evaluate({self.name}, ...), or put it in a @module and call module.{self.name}(...)"
        )


class _Comparison(threading.local):
    """Pairs of functions that the comparison running on this thread has settled."""

    settled: dict[tuple[int, int], bool] | None = None


_COMPARISON = _Comparison()


def _compared_once(a: Function, b: Function) -> bool:
    """``a == b``, each pair of callees compared once: calls of calls would take exponential time otherwise."""
    settled = _COMPARISON.settled
    if settled is not None:
        key = (id(a), id(b))
        if key not in settled:
            settled[key] = a._same_as(b)
        return settled[key]
    _COMPARISON.settled = {}
    try:
        return a._same_as(b)
    finally:
        _COMPARISON.settled = None
