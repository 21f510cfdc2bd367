"""A TIR function: explicit buffers in, statements, explicit buffers out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tilefoundry.ir.core.expr import Var

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

    def seal(self) -> None:
        """Nothing to fix: a PrimFunction is immutable from the start."""
