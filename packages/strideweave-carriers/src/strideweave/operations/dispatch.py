"""Dispatch: from operands to a plan by exact carrier class, from a plan to a result and its graph node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .. import seam
from ..autograd.mode import is_grad_enabled, keeps_mode
from ..autograd.node import Node
from ..carriers.base import Carrier
from ..carriers.definition import definition_of
from ..errors import UnsupportedOperationPlan, no_tensor
from ..layout import Layout
from ..tensor import Tensor, attach, detached
from .kernels import family_of
from .operation import Attributes, Operand, Operation, operation_named, operation_names


@keeps_mode
def apply(operation: Operation, operands: Sequence[Operand], attributes: Attributes) -> Tensor:
    """Run ``operation``: check operands, find the plan, compute, record one node.

    Raises:
        TypeError: an operand is no Tensor (or scalar where one is allowed), or classes are mixed.
        UnsupportedOperationPlan: the operands' carrier class has no plan for it.
        ValueError, OverflowError: as the operation says.
        RuntimeError: an operand was released or is being written.
    """
    tensors = check_operands(operation, operands)
    for tensor in tensors:
        definition = definition_of(type(tensor.carrier))
        if definition is not None:
            refuse(_refusal(operation.name, operands))
            kernel = (definition.kernels or {}).get(operation.name)
            execute = kernel if kernel is not None else definition.composite
            return execute(operation, operands, attributes)  # type: ignore[misc] # plan_refusal saw one of the two
    refuse(_refusal(operation.name, operands))
    result = compute(operation, operands, attributes)
    return record(operation, operands, attributes, result)


def check_operands(operation: Operation, operands: Sequence[Operand]) -> list[Tensor]:
    """The Tensors among the operands, none of them on a released carrier."""
    tensors = tensor_operands(operation, operands)
    for tensor in tensors:
        tensor.carrier.require_live(operation.name)
    return tensors


def tensor_operands(operation: Operation, operands: Sequence[Operand]) -> list[Tensor]:
    """The Tensors among the operands.

    Raises:
        TypeError: an operand that is neither a Tensor nor a number where one is allowed, or no Tensor at all.
    """
    for operand in operands:
        if not isinstance(operand, Tensor) and not (
            operation.scalars and isinstance(operand, (bool, int, float))
        ):
            wanted = "a Tensor or a Python number" if operation.scalars else "a Tensor"
            raise no_tensor(operation.name, operand, wanted)
    tensors = [o for o in operands if isinstance(o, Tensor)]
    if not tensors:
        raise TypeError(f"{operation.name}: at least one operand must be a Tensor")
    return tensors


def compute(operation: Operation, operands: Sequence[Operand], attributes: Attributes) -> Tensor:
    """The result on a fresh carrier of the operands' compute class, outside any graph."""
    result = operation.infer(operands, attributes)
    tensors = [o for o in operands if isinstance(o, Tensor)]
    with reading(tensors):
        placed = [_on_compute(o) if isinstance(o, Tensor) else o for o in operands]
        prototype = next(p.carrier for p in placed if isinstance(p, Tensor))
        family = family_of(type(prototype))
        if family is None:
            raise UnsupportedOperationPlan(f"{operation.name}: {type(prototype).__name__} computes nothing")
        seam.enter("kernel")
        carrier = family(operation, placed, attributes, result, prototype)
    return detached(Tensor(carrier, 0, Layout(result.extents)))


def record(
    operation: Operation, operands: Sequence[Operand], attributes: Attributes, result: Tensor
) -> Tensor:
    """``result`` with its graph node, if one is wanted."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    wanted = any(t.is_differentiable() for t in tensors) and operation.vjp is not None
    if not (is_grad_enabled() and wanted and result.dtype().is_float):
        return attach(result, None)
    saved = [_named(operands, result, s) for s in operation.saves]
    # The node must not refer to the result that refers to it.
    twin = detached(result)
    kept = tuple(detached(o) if isinstance(o, Tensor) else o for o in operands)
    vjp = operation.vjp

    def backward(gradient: Tensor) -> Sequence[Tensor | None]:
        return vjp(kept, attributes, twin, gradient)  # type: ignore[misc] # vjp is not None, see wanted

    return attach(result, Node(operation.name, tensors, backward, saved))


def _named(operands: Sequence[Operand], result: Tensor, which: Any) -> Tensor:
    found = detached(result) if which == "result" else operands[which]
    if not isinstance(found, Tensor):
        # A scalar needs no protection; saving the result twin in its place is harmless.
        return detached(result)
    return detached(found)


@contextmanager
def reading(tensors: Sequence[Tensor]) -> Iterator[None]:
    """Hold the tensors' carriers for computing, in creation order so that two threads cannot block each other."""
    carriers = sorted({t.carrier for t in tensors}, key=lambda c: c.serial)
    held: list[Carrier] = []
    try:
        for carrier in carriers:
            carrier.hold_for_compute()
            held.append(carrier)
        yield
    finally:
        for carrier in held:
            carrier.drop_read()


def _on_compute(tensor: Tensor) -> Tensor:
    carrier = tensor.carrier.compute_carrier()
    if carrier is tensor.carrier:
        return tensor
    return detached(Tensor(carrier, tensor.offset, tensor.layout))


def compute_class(carrier: Carrier) -> type[Carrier]:
    """The class whose kernels serve ``carrier``; decided without moving any value."""
    return carrier.compute_class() if carrier.dependent else type(carrier)


def operation_capabilities(carrier: Carrier | type[Carrier]) -> frozenset[str]:
    """Names of the operations that tensors on ``carrier`` (an instance or a class) can take part in.

    Raises:
        TypeError: something else.
    """
    cls = carrier if isinstance(carrier, type) else type(carrier)
    if not issubclass(cls, Carrier):
        raise TypeError(
            f"operation_capabilities: expected a carrier or its class, got {carrier!r}; of a tensor, pass its carrier"
        )
    definition = definition_of(cls)
    if definition is not None:
        return frozenset(definition.kernels or {})
    served = compute_class(carrier) if isinstance(carrier, Carrier) else cls
    return operation_names() if family_of(served) is not None else frozenset()


def plan_refusal(name: str, *operands: Any) -> str | None:
    """Why there is no plan for operation ``name`` on these operands, or None if there is one.

    Only operation and carrier classes count; shapes and types are the operation's own to refuse.

    Raises:
        TypeError: operands of different carrier classes, or what is no operand, such as a carrier.
    """
    operation = operation_named(name)
    if operation is None:
        return f"{name}: no such operation; there are {', '.join(sorted(operation_names()))}"
    tensor_operands(operation, operands)
    return _refusal(name, operands)


def _refusal(name: str, operands: Sequence[Operand]) -> str | None:
    """``plan_refusal`` without the look-up: derivatives are operations outside the table."""
    tensors = [o for o in operands if isinstance(o, Tensor)]
    classes = [type(t.carrier) for t in tensors]
    for cls in classes:
        definition = definition_of(cls)
        if definition is not None:
            return _definition_refusal(name, cls, operands)
    served = {compute_class(t.carrier) for t in tensors}
    if len(served) > 1:
        names = " and ".join(sorted(c.__name__ for c in served))
        raise TypeError(f"{name}: operands on {names}; move them to one carrier class first")
    for cls in served:
        if family_of(cls) is None:
            return f"{name}: {cls.__name__} only stores; move the tensor to a compute carrier such as CPU"
    return None


def _definition_refusal(name: str, cls: type[Carrier], operands: Sequence[Any]) -> str | None:
    definition = definition_of(cls)
    kernels = (definition.kernels if definition else None) or {}
    if name not in kernels:
        return f"{name}: {cls.__name__} supports {', '.join(sorted(kernels))}; project a selection and use its result"
    return None


def refuse(reason: str | None) -> None:
    """Raise UnsupportedOperationPlan with ``reason``, if there is one."""
    if reason is not None:
        raise UnsupportedOperationPlan(reason)


def supports_operation_plan(name: str, *operands: Any) -> bool:
    """Whether operation ``name`` has a plan on these operands."""
    try:
        return plan_refusal(name, *operands) is None
    except TypeError:
        return False


def require_operation_plan(name: str, *operands: Any) -> None:
    """Raise what dispatching operation ``name`` on these operands would raise for want of a plan."""
    refuse(plan_refusal(name, *operands))
