"""From a router's expert ids to the distinct experts, with one copy from the device.

torch is loaded with the first call.
"""

from __future__ import annotations

from typing import Any

from ...constructors import from_torch, to_torch
from ...tensor import Tensor
from ..torch_storage import refuse_strange


def distinct_ids(ids: Any, extent: int) -> tuple[list[int], Any]:
    """The distinct values of ``ids`` in ``[0, extent)``, ascending, and the rank of each entry among them.

    Raises:
        TypeError: ``ids`` is no integer tensor.
        ValueError: empty, or an id outside the range.
    """
    import torch

    if isinstance(ids, Tensor):
        distinct, inverse = distinct_ids(to_torch(ids), extent)
        return distinct, from_torch(inverse)
    if not isinstance(ids, torch.Tensor):
        raise TypeError(f"from_tensor: expected an integer tensor of ids, got {type(ids).__name__} {ids!r}")
    refuse_strange(ids, "from_tensor")
    if ids.dtype.is_floating_point or ids.dtype.is_complex or ids.dtype == torch.bool:
        raise TypeError(f"from_tensor: ids are {ids.dtype}, expected integers")
    if not ids.numel():
        raise ValueError("from_tensor: no ids; a selection needs at least one tile per axis")
    return _on_device(ids, extent)


def _on_device(ids: Any, extent: int) -> tuple[list[int], Any]:
    import torch

    with torch.no_grad():
        wide = ids.long()
        # Ids outside land in one more flag, so that nothing indexes out of bounds on the device.
        safe = torch.where((wide < 0) | (wide >= extent), extent, wide)
        seen = torch.zeros(extent + 1, dtype=torch.uint8, device=ids.device)
        seen[safe.reshape(-1)] = 1
        inverse = (torch.cumsum(seen, 0) - 1)[safe].to(ids.dtype)
        flags = seen.tolist()
    if flags[extent]:
        wrong = wide[safe == extent].reshape(-1)[0].item()
        raise ValueError(f"from_tensor: id {wrong} is outside the grid's {extent} tiles")
    return [k for k in range(extent) if flags[k]], inverse
