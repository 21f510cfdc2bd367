"""Kernel families: how a class of carriers runs an Operation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..carriers.base import Carrier
from ..carriers.torch_storage import TorchStorage, plain_torch
from ..tensor import Tensor
from .operation import Attributes, Operand, Operation, Result, Values

if TYPE_CHECKING:
    import torch

Family = Callable[[Operation, Sequence[Operand], Attributes, Result, Carrier], Carrier]

_families: dict[type, Family] = {}


def register_family(cls: type[Carrier], family: Family) -> None:
    """Let tensors on exactly ``cls`` compute through ``family``; ``cls.compute`` becomes True.

    Raises:
        ValueError: the class has a family already.
    """
    if cls in _families:
        raise ValueError(f"register_family: {cls.__name__} has kernels already")
    _families[cls] = family
    cls.compute = True


def family_of(cls: type) -> Family | None:
    """The family of exactly ``cls``, or None."""
    return _families.get(cls)


def torch_family(
    operation: Operation,
    operands: Sequence[Operand],
    attributes: Attributes,
    result: Result,
    prototype: Carrier,
) -> Carrier:
    """Run the torch kernel; the result's storage becomes a carrier of the prototype's class."""
    if not isinstance(prototype, TorchStorage):
        raise TypeError(f"{operation.name}: {type(prototype).__name__} has no torch storage")
    with plain_torch():
        views = [reversed_view(o) if isinstance(o, Tensor) else o for o in operands]
        out = operation.torch(views, attributes, result)
        flat = out.to(result.dtype.torch()).contiguous().view(-1)
        if _is_alias(flat, views):
            flat = flat.clone()
        return type(prototype).adopt(flat, result.dtype)


def _is_alias(flat: torch.Tensor, views: Sequence[torch.Tensor | object]) -> bool:
    import torch

    mine = flat.untyped_storage().data_ptr()
    return any(isinstance(v, torch.Tensor) and v.untyped_storage().data_ptr() == mine for v in views)


def reversed_view(tensor: Tensor) -> torch.Tensor:
    """The tensor's leaves as a strided torch view, the slowest first."""
    carrier = tensor.carrier
    if not isinstance(carrier, TorchStorage):
        raise TypeError(f"{type(carrier).__name__} has no torch storage")
    modes = tensor.layout.concrete.flat_modes()[::-1]
    flat = carrier.flat()
    return flat.as_strided(
        [s for s, _ in modes], [d for _, d in modes], flat.storage_offset() + tensor.offset
    )


def python_family(
    operation: Operation,
    operands: Sequence[Operand],
    attributes: Attributes,
    result: Result,
    prototype: Carrier,
) -> Carrier:
    """Run the pure Python kernel and round its values to the result's type."""
    values = [values_of(o) if isinstance(o, Tensor) else o for o in operands]
    out = operation.python(values, attributes, result)
    return prototype.new_like(out, mutable=True, dtype=result.dtype)


def values_of(tensor: Tensor) -> Values:
    """All values in the order of coordinates."""
    dtype, layout = tensor.dtype(), tensor.layout.concrete
    item = dtype.itemsize
    data = bytearray(layout.cosize() * item)
    tensor.carrier.load_bytes(tensor.offset * item, memoryview(data))
    indices = (layout(i) * item for i in range(layout.size()))
    return Values([dtype.unpack(data[k : k + item]) for k in indices], tensor.shape.leaves())
