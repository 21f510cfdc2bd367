"""Making tensors, and handing them to and from torch, numpy and DLPack.

Memory is shared where it can be; each function says when it copies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .carriers.base import Carrier
from .carriers.cpu import CPU
from .carriers.cuda import CUDA
from .carriers.metal import Metal
from .carriers.torch_storage import TorchStorage, plain_torch, refuse_strange
from .dtypes import DType, Float32, Scalar, as_dtype, from_torch_dtype
from .layout import Layout
from .movement.interrupts import interrupts_deferred
from .movement.move import to_cpu
from .shape import Shape
from .tensor import Tensor, detached

if TYPE_CHECKING:
    import numpy
    import torch

_CLASSES: dict[str, type[TorchStorage]] = {"cpu": CPU, "cuda": CUDA, "mps": Metal}


def _fresh(shape: Any, dtype: DType | None, carrier: Carrier | None, empty: bool) -> Tensor:
    wanted = shape if isinstance(shape, Shape) else Shape(shape)
    if carrier is not None and not isinstance(carrier, Carrier):
        raise TypeError(f"carrier: expected a carrier to allocate from, got {type(carrier).__name__}")
    kind = as_dtype(dtype) if dtype is not None else Float32 if carrier is None else carrier.dtype()
    prototype = CPU(0, dtype=kind) if carrier is None else carrier
    return Tensor(prototype.allocate_like(wanted.size(), dtype=kind, empty=empty), 0, Layout(wanted))


def zeros(shape: Any, *, dtype: DType | None = None, carrier: Carrier | None = None) -> Tensor:
    """A dense tensor of zeros on a fresh carrier like ``carrier`` (default: CPU)."""
    return _fresh(shape, dtype, carrier, False)


def full(shape: Any, value: Scalar, *, dtype: DType | None = None, carrier: Carrier | None = None) -> Tensor:
    """A dense tensor of one value, rounded to the type."""
    tensor = _fresh(shape, dtype, carrier, True)
    kind = tensor.dtype()
    data = kind.pack(kind.check(value))
    chunk = data * min(tensor.size(), 1 << 16)
    total = tensor.size() * kind.itemsize
    for start in range(0, total, len(chunk)):
        tensor.carrier.store_bytes(start, memoryview(chunk)[: total - start])
    return tensor


def ones(shape: Any, *, dtype: DType | None = None, carrier: Carrier | None = None) -> Tensor:
    """A dense tensor of ones."""
    kind = dtype if dtype is not None else None if carrier is None else carrier.dtype()
    return full(shape, True if kind is not None and kind.kind == "bool" else 1, dtype=dtype, carrier=carrier)


def tensor(
    values: Any, *, shape: Any = None, dtype: DType | None = None, carrier: Carrier | None = None
) -> Tensor:
    """A dense tensor from numbers in the order of coordinates (first mode fastest); 1-D without ``shape``."""
    items = list(values)
    kind = as_dtype(dtype) if dtype is not None else Float32 if carrier is None else carrier.dtype()
    prototype = CPU(0, dtype=kind) if carrier is None else carrier
    made = prototype.new_like(items, mutable=True, dtype=kind)
    return Tensor(made, 0, Layout(len(items) if shape is None else shape))


def from_torch(source: torch.Tensor) -> Tensor:
    """``source`` seen as a Tensor: same shape and strides, shared memory, detached from torch's graph.

    The torch tensor's memory stays alive. Writes through torch are noticed by saved-value checks; writes
    through numpy, DLPack or ``.data`` cannot be. A negated or conjugated view, such as ``x.conj().imag``, is a promise
    of torch's and not memory: it is copied, and shares nothing.

    Raises:
        TypeError: no torch tensor, a fake or meta one, or an element type or device without a twin.
        ValueError: an empty tensor.
    """
    refuse_strange(source, "from_torch")
    cls = _CLASSES.get(source.device.type)
    if cls is None:
        raise TypeError(f"from_torch: no carrier for device {source.device}; expected {', '.join(_CLASSES)}")
    dtype = from_torch_dtype(source.dtype)
    # A conjugated or negated view is a promise, not memory.
    plain = source.detach().resolve_conj().resolve_neg()
    layout = Layout(
        tuple(plain.shape), tuple(s if n > 1 else 0 for s, n in zip(plain.stride(), plain.shape, strict=True))
    )
    flat = plain.as_strided((layout.cosize(),), (1,), plain.storage_offset())
    return Tensor(cls.adopt(flat, dtype, shared=True), 0, layout)


def to_torch(source: Tensor) -> torch.Tensor:
    """The tensor as a torch tensor with one dimension per leaf.

    Shares memory on CPU, CUDA and Metal carriers; otherwise copies to the host. Not connected to any graph.
    """
    if not isinstance(source, Tensor):
        raise TypeError(f"to_torch: expected a strideweave Tensor, got {_described(source)}")
    source.carrier.require_live("to_torch")
    carrier = source.carrier
    if not isinstance(carrier, TorchStorage):
        return to_torch(to_cpu(source))
    modes = source.layout.concrete.flat_modes()
    with interrupts_deferred(), plain_torch():
        flat = carrier.flat()
        start = flat.storage_offset() + source.offset
        return flat.as_strided([s for s, _ in modes], [d for _, d in modes], start)


def _described(source: object) -> str:
    """What was given in place of a Tensor, and what to pass."""
    import torch

    kind = type(source).__name__
    if isinstance(source, torch.Tensor):
        return f"a torch.{kind}, which is what to_torch gives: use it as it is, or pass from_torch(it)"
    if callable(getattr(source, "wait", None)):
        return f"{kind}, a request that may be under way: pass what its wait() returns"
    return f"{kind}: pass what from_torch, from_numpy or an operation returns"


def from_numpy(source: numpy.ndarray) -> Tensor:
    """``source`` seen as a Tensor: shared memory unless it is read-only, byte-swapped or has negative strides.

    Raises:
        TypeError: no array, or an element type without a twin.
        ValueError: an empty array.
    """
    import numpy
    import torch

    if not isinstance(source, numpy.ndarray):
        raise TypeError(f"from_numpy: expected a numpy array, got {type(source).__name__}")
    plain = source
    if not source.flags.writeable or not source.dtype.isnative or any(s < 0 for s in source.strides):
        plain = numpy.array(source, dtype=source.dtype.newbyteorder("="), copy=True)
    return from_torch(torch.from_numpy(plain))


def to_numpy(source: Tensor) -> numpy.ndarray:
    """The tensor as an array with one axis per leaf; shares memory on CPU carriers, otherwise copies.

    Raises:
        TypeError: numpy has no such element type (BFloat16, Float8); cast it first.
    """
    array = to_torch(source)
    if source.dtype().name in ("BFloat16", "Float8E4M3", "Float8E5M2"):
        raise TypeError(f"to_numpy: numpy has no {source.dtype()}; cast it to Float32 first")
    return array.cpu().numpy()


def from_dlpack(source: Any) -> Tensor:
    """Any object with ``__dlpack__`` seen as a Tensor; shares memory. Raises as ``from_torch``."""
    import torch

    return from_torch(torch.from_dlpack(source))


def to_dlpack(source: Tensor) -> Any:
    """A DLPack capsule that shares memory where ``to_torch`` does."""
    return to_torch(source).__dlpack__()


def tolist(source: Tensor) -> list[Scalar]:
    """All values in the order of coordinates, first mode fastest."""
    source.carrier.require_live("tolist")
    layout, item, dtype = source.layout.concrete, source.dtype().itemsize, source.dtype()
    host = source if source.carrier.host else to_cpu(detached(source))
    data = bytearray(layout.cosize() * item)
    host.carrier.load_bytes(host.offset * item, memoryview(data))
    return [dtype.unpack(data[k * item : (k + 1) * item]) for k in map(layout, range(layout.size()))]
