"""Gathers: from tiles in slots to a compact tensor, and back. They run where the mover computes, under no lock."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ... import seam
from ..torch_storage import plain_torch
from .core import Core
from .indices import index_tensor
from .packing import Packing
from .slots import Slab, Slot
from .tensors import tile_rows, words

if TYPE_CHECKING:
    import torch

ONE_COPY = 1 << 16
"""Tiles of at least this many bytes in host memory are copied one by one: there is no launch to save."""


def gather(core: Core, tiles: Sequence[tuple[int, Slot]], out: torch.Tensor, packing: Packing) -> None:
    """Copy ``tiles`` (compact position, slot) into the flat compact tensor ``out``, both as bits."""
    seam.enter("kernel")
    with plain_torch():
        slabs = {slot.slab for _, slot in tiles}
        if len(tiles) == packing.tiles and len(slabs) == 1 and not _singly(core, out):
            index = index_tensor(tuple(slot.index for _, slot in sorted(tiles)), out.device)
            if index is not None:
                _all_at_once(core, next(iter(slabs)), index, out, packing)
                return
        rows = {slab: tile_rows(slab, core.geometry, core.dtype) for slab in slabs}
        target = packing.by_tile(out)
        for k, slot in tiles:
            target[packing.place(k)].copy_(rows[slot.slab][slot.index].view(packing.tile_dims))


def _singly(core: Core, out: torch.Tensor) -> bool:
    return out.device.type == "cpu" and core.tile_bytes >= ONE_COPY


def _all_at_once(core: Core, slab: Slab, index: torch.Tensor, out: torch.Tensor, packing: Packing) -> None:
    import torch

    rows = tile_rows(slab, core.geometry, core.dtype)
    if packing.verbatim:
        into = out[: packing.slots].view(packing.tiles, packing.tile_slots)
        wide, into = words(rows), words(into)
        if wide.dtype == into.dtype:
            torch.index_select(wide, 0, index, out=into)
        else:
            torch.index_select(rows, 0, index, out=out[: packing.slots].view(packing.tiles, -1))
        return
    picked = torch.index_select(words(rows), 0, index).view(rows.dtype)
    picked = picked.view(*packing.counts[::-1], *packing.tile_dims)
    packing.by_tile(out).copy_(picked)


def spread(
    core: Core,
    values: torch.Tensor,
    packing: Packing,
    tiles: Sequence[tuple[int, Slot]],
    *,
    add: bool = False,
) -> None:
    """Write compact ``values`` (flat, dense, of the element type) to ``tiles`` (compact position, slot).

    With ``add`` they are added to what the slots hold, rounded once.
    """
    seam.enter("kernel")
    with plain_torch():
        source = packing.by_tile(values)
        kind = core.dtype.torch()
        for slab, members in _by_slab(tiles).items():
            rows = tile_rows(slab, core.geometry, core.dtype).view(kind)
            for k, index in members:
                target = rows[index].view(packing.tile_dims)
                piece = source[packing.place(k)]
                target.add_(piece) if add else target.copy_(piece)


def _by_slab(tiles: Sequence[tuple[int, Slot]]) -> dict[Slab, list[tuple[int, int]]]:
    groups: dict[Slab, list[tuple[int, int]]] = {}
    for k, slot in tiles:
        groups.setdefault(slot.slab, []).append((k, slot.index))
    return groups
