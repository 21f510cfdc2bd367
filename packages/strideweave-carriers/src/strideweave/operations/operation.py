"""Operation: one record per operation, with its shape and type rule, its kernels and its derivative."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.layout import IntTuple, flatten

from ..dtypes import DType, Scalar
from ..tensor import Tensor

if TYPE_CHECKING:
    import torch

Operand = Any
"""A Tensor, or a Python number where ``Operation.scalars`` allows it; dispatch has checked which."""
Attributes = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """Shape tree and element type that an operation will give."""

    extents: IntTuple
    dtype: DType

    @property
    def leaves(self) -> tuple[int, ...]:
        """The extents without nesting."""
        return flatten(self.extents)


@dataclass(frozen=True, slots=True)
class Values:
    """An operand of the pure Python kernels: its values in the order of coordinates, and its leaf extents."""

    items: list[Scalar]
    leaves: tuple[int, ...]


Infer = Callable[[Sequence[Operand], Attributes], Result]
TorchKernel = Callable[[Sequence[Any], Attributes, Result], "torch.Tensor"]
"""Takes strided torch views (or Python numbers)."""

PythonKernel = Callable[[Sequence[Any], Attributes, Result], list[Scalar]]
"""Takes ``Values`` (or Python numbers)."""

Vjp = Callable[[Sequence[Operand], Attributes, Tensor, Tensor], Sequence["Tensor | None"]]


@dataclass(frozen=True, slots=True)
class Operation:
    """``infer`` decides shape and type and refuses operands; the kernels compute; ``vjp`` differentiates.

    torch kernels see operands with their leaves in reverse order (so that a dense tensor is C-contiguous)
    and return the result likewise. ``vjp(operands, attributes, result, gradient)`` gives a gradient or None
    per Tensor operand; None for ``vjp`` means that no gradient flows. ``saves`` names the values that it reads:
    tensor operands by position, ``"result"``.
    """

    name: str
    infer: Infer
    torch: TorchKernel
    python: PythonKernel
    vjp: Vjp | None = None
    saves: tuple[int | str, ...] = ()
    scalars: bool = False


_operations: dict[str, Operation] = {}


def define(operation: Operation) -> Operation:
    """Enter ``operation`` into the table.

    Raises:
        ValueError: the name is taken.
    """
    if operation.name in _operations:
        raise ValueError(f"define: operation {operation.name!r} exists already")
    _operations[operation.name] = operation
    return operation


def operation_named(name: str) -> Operation | None:
    """The operation of that name, or None."""
    return _operations.get(name)


def operation_names() -> frozenset[str]:
    """All operations."""
    return frozenset(_operations)
