"""What one run of a function knows while it goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.errors import EvaluationError
from tilefoundry.ir.types import Dim, TensorType, Type, evaluate_dim

__all__ = ["ConstantLookup", "EvalContext"]

ConstantLookup = Callable[[tuple[str, ...], str], Any]
"""``lookup(path, name)``: the weight called ``name`` of the child at ``path`` from the caller's module."""


@dataclass(slots=True)
class EvalContext:
    """What an op's evaluator may ask for. One context belongs to one run on one thread.

    Attributes:
        function: name of the running function, for messages.
        env: values of DimVars, loop indices and tile windows.
        device: the torch device of the run.
        result_type: the inferred type of the op being evaluated.
        operand_types: the types of its operands; a tensor alone does not tell ``f4e2m1`` codes from ``u8``.
        constants: finds a child's weight; None on a bare function.
    """

    function: str
    env: dict[str, int]
    device: Any
    result_type: Type | None = None
    operand_types: tuple[Type, ...] = ()
    constants: ConstantLookup | None = None

    def dim(self, dim: Dim) -> int:
        """The integer that ``dim`` has in this run; EvaluationError where a variable has no value."""
        if isinstance(dim, int):
            return dim
        try:
            return evaluate_dim(dim, self.env)
        except KeyError as error:
            raise EvaluationError(
                f"{self.function}: {error.args[0]}, which no argument gives; it has values for "
                f"{', '.join(self.env) or 'none'}"
            ) from None

    def shape(self, type_: TensorType) -> tuple[int, ...]:
        """The concrete shape of ``type_`` in this run."""
        return tuple(self.dim(dim) for dim in type_.shape)
