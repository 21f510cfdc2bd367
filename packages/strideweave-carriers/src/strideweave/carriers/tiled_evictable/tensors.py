"""torch views of slabs and of compact tensors. Tiles are moved as bits, so every element type is handled alike.

torch is loaded with the first call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...dtypes import DType
from ...movement.interrupts import interrupts_deferred
from ...tensor import Tensor
from .. import hostmemory
from ..base import Carrier
from ..cuda import CUDA
from ..torch_storage import TorchStorage, plain_torch
from .geometry import TileGeometry
from .mover import HostMover
from .slots import Slab

if TYPE_CHECKING:
    import torch


def mover_for(prototype: Carrier) -> Any:
    """The mover that serves primaries of the class of ``prototype``."""
    if isinstance(prototype, CUDA):
        from .mover_cuda import CudaMover

        return CudaMover(prototype.device.index or 0)
    return HostMover()


def bits(dtype: DType) -> torch.dtype:
    """The integer type of the same width, in which values are copied bit for bit."""
    import torch

    return {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[dtype.itemsize]


def flat_bytes(carrier: Carrier) -> torch.Tensor:
    """The carrier's slots as a flat uint8 tensor that shares their storage.

    Raises:
        TypeError: the class keeps no memory that torch can see.
    """
    import torch

    if isinstance(carrier, TorchStorage):
        return carrier.flat_bytes()
    address = carrier.host_address()
    if address is None:
        raise TypeError(f"{type(carrier).__name__}: keeps no memory to view")
    if not carrier.size():
        return torch.empty(0, dtype=torch.uint8)
    return torch.frombuffer(hostmemory.view(address, carrier.nbytes()), dtype=torch.uint8)


def flat_bits(carrier: Carrier) -> torch.Tensor:
    """The slots as a flat tensor of the integer type of their width."""
    if isinstance(carrier, TorchStorage):
        return carrier.flat().view(bits(carrier.dtype()))
    return flat_bytes(carrier).view(bits(carrier.dtype()))


def flat_values(carrier: Carrier) -> torch.Tensor:
    """The slots as a flat tensor of their own type."""
    return flat_bytes(carrier).view(carrier.dtype().torch())


def tile_rows(slab: Slab, geometry: TileGeometry, dtype: DType) -> torch.Tensor:
    """The slab as bits, one row per tile; kept with the slab, whose storage never changes."""
    if slab.rows is None:
        with interrupts_deferred(), plain_torch():
            rows = flat_bits(slab.carrier).view(slab.tiles, geometry.tile_slots)
            # Another thread that finds rows takes the words as there, so these come first.
            slab.wide = words(rows)
            slab.rows = rows
    return slab.rows


def words(rows: torch.Tensor) -> torch.Tensor:
    """The rows as the widest words that their length and address allow, for copying."""
    import torch

    nbytes = rows.shape[1] * rows.element_size()
    for width, kind in ((8, torch.int64), (4, torch.int32), (2, torch.int16)):
        if width <= rows.element_size():
            break
        if nbytes % width == 0 and rows.data_ptr() % width == 0:
            return rows.view(kind)
    return rows


def dense_bits(tensor: Tensor) -> torch.Tensor:
    """The values of an ordinary tensor as flat bits, first mode fastest; a copy unless they lie so already."""
    flat = flat_bits(tensor.carrier)
    modes = tensor.layout.concrete.flat_modes()[::-1]
    view = flat.as_strided(
        [e for e, _ in modes], [s for _, s in modes], flat.storage_offset() + tensor.offset
    )
    return view.reshape(-1)
