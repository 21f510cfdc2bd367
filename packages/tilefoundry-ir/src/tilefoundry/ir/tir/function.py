"""A TIR function: explicit buffers in, statements, explicit buffers out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.types import TupleType, Type

__all__ = ["PrimFunction"]


@dataclass(frozen=True, slots=True)
class PrimFunction:
    """Statements over buffers.

    Attributes:
        name: its name in the module.
        params: buffers and scalars in order, inputs before outputs.
        body: TIR statements, in order.
        output_count: how many trailing params the body writes.
        topologies: the levels it declares itself, or None to take its module's.
        target: the Target that its declaration names, or None.
    """

    name: str
    params: tuple[Var, ...]
    body: tuple[Any, ...]
    output_count: int = 0
    topologies: tuple[Any, ...] | None = None
    target: Any | None = field(default=None)

    @property
    def inputs(self) -> tuple[Var, ...]:
        """What a tensor program that calls the function passes: all parameters but those that the body writes."""
        return self.params[: len(self.params) - self.output_count]

    @property
    def activations(self) -> tuple[Var, ...]:
        """The same: statements have no weights of their own where a tensor program calls them."""
        return self.inputs

    @property
    def constants(self) -> tuple[Var, ...]:
        """None, as above."""
        return ()

    @property
    def outputs(self) -> tuple[Var, ...]:
        """The parameters that the body writes."""
        return self.params[len(self.params) - self.output_count :]

    @property
    def result(self) -> Type:
        """What a call in a tensor program gives: the output, or a tuple of them."""
        types = tuple(param.type for param in self.outputs)
        return types[0] if len(types) == 1 else TupleType(types)

    def seal(self) -> None:
        """Nothing to fix: a PrimFunction is immutable from the start."""
