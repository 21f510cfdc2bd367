"""Gathers: from tiles in slots to a compact tensor, and back. They run where the mover computes, under no lock."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ... import seam
from ...kernels import kernel_for, transpose
from ..torch_storage import outside_inference, plain_torch
from .core import Core
from .indices import index_tensor
from .mover import CAPTURED
from .packing import Packing
from .slots import Slab, Slot
from .standing import Standing
from .tensors import tile_rows, words

if TYPE_CHECKING:
    import torch

ONE_COPY = 1 << 16
"""Tiles of at least this many bytes in host memory are copied one by one: there is no launch to save."""


CACHED = 16 << 20
"""Bytes of a permuted source that are read at a time on a device."""


def gather(core: Core, tiles: Sequence[tuple[int, Slot]], out: torch.Tensor, packing: Packing) -> None:
    """Copy ``tiles`` (compact position, slot) into the flat compact tensor ``out``, both as bits."""
    seam.enter("kernel")
    with outside_inference():
        slabs = {slot.slab for _, slot in tiles}
        if len(slabs) > 1 or (packing.verbatim and _singly(core, out)):
            _one_by_one(core, tiles, out, packing)
            return
        ordered = sorted(tiles)
        index = index_tensor(tuple(slot.place for _, slot in ordered), out.device)
        if index is None:
            _one_by_one(core, tiles, out, packing)
        elif len(tiles) == packing.tiles:
            _all_at_once(core, ordered[0][1].slab, index, out, packing)
        else:
            _some_at_once(core, ordered, index, out, packing)


def gather_fresh(core: Core, standing: Standing, packing: Packing, here: Any) -> torch.Tensor | None:
    """All tiles of a compact tensor from one slab, as a fresh flat tensor of the element type.

    ``here`` is the mover's name for where this thread's work runs. None where a graph capture does not allow the
    index to be made. The caller is not in inference mode.
    """
    import torch

    seam.enter("allocate")
    seam.enter("kernel")
    slab = standing.slab
    rows = slab.rows if slab.rows is not None else tile_rows(slab, core.geometry, core.dtype)
    known = standing.index
    if known is not None and known[0] is here:
        index = known[1]
    else:
        index = core.mover.index(here, standing.places, rows.device)
        if index is None:
            return None
        if here is not CAPTURED:
            standing.index = here, index
    picked = torch.index_select(slab.wide, 0, index)
    if packing.verbatim:
        return picked.view(core.dtype.torch()).view(-1)
    out = torch.empty(packing.slots, dtype=rows.dtype, device=rows.device)
    picked = picked.view(rows.dtype).view(*packing.counts[::-1], *packing.tile_dims)
    core.stats.permuted(transpose(packing.by_tile(out), picked))
    return out.view(core.dtype.torch())


def _singly(core: Core, out: torch.Tensor) -> bool:
    return out.device.type == "cpu" and core.tile_bytes >= ONE_COPY


def _one_by_one(core: Core, tiles: Sequence[tuple[int, Slot]], out: torch.Tensor, packing: Packing) -> None:
    rows: dict[Slab, torch.Tensor] = {}
    target = packing.by_tile(out)
    if not packing.verbatim:
        core.stats.permuted(False, len(tiles))
    for k, slot in tiles:
        if slot.slab not in rows:
            rows[slot.slab] = tile_rows(slot.slab, core.geometry, core.dtype)
        target[packing.place(k)].copy_(rows[slot.slab][slot.place].view(packing.tile_dims))


def _some_at_once(
    core: Core, tiles: Sequence[tuple[int, Slot]], index: torch.Tensor, out: torch.Tensor, packing: Packing
) -> None:
    """Some tiles of one slab: their places are one index of one axis, or else they are copied one by one.

    In canonical order neighbouring elements belong to different tiles, so that tile by tile each copy would touch
    nearly all of the target's cache lines.
    """
    import torch

    long = [a for a, n in enumerate(packing.counts) if n > 1]
    places = index_tensor(tuple(k for k, _ in tiles), out.device) if len(long) == 1 else None
    if places is None:
        _one_by_one(core, tiles, out, packing)
        return
    rows = tile_rows(tiles[0][1].slab, core.geometry, core.dtype)
    picked = torch.index_select(tiles[0][1].slab.wide, 0, index).view(rows.dtype)
    dim = len(packing.counts) - 1 - long[0]
    shape = [1] * len(packing.counts)
    shape[dim] = len(tiles)
    packing.by_tile(out).index_copy_(dim, places, picked.view(*shape, *packing.tile_dims))
    if not packing.verbatim:
        core.stats.permuted(False)


def _all_at_once(core: Core, slab: Slab, index: torch.Tensor, out: torch.Tensor, packing: Packing) -> None:
    import torch

    rows = tile_rows(slab, core.geometry, core.dtype)
    if packing.verbatim:
        whole = out if out.numel() == packing.slots else out[: packing.slots]
        into = words(whole.view(packing.tiles, packing.tile_slots))
        if into.dtype == slab.wide.dtype:
            torch.index_select(slab.wide, 0, index, out=into)
        else:
            torch.index_select(rows, 0, index, out=whole.view(packing.tiles, packing.tile_slots))
        return
    picked = torch.index_select(slab.wide, 0, index).view(rows.dtype)
    picked = picked.view(*packing.counts[::-1], *packing.tile_dims)
    core.stats.permuted(transpose(packing.by_tile(out), picked))


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
            if len(members) == packing.tiles and _consecutive(members):
                run = rows[members[0][1] : members[0][1] + len(members)]
                target = run.view(*packing.counts[::-1], *packing.tile_dims)
                by_kernel = not (add or packing.verbatim) and kernel_for(target, source)
                if not packing.verbatim:
                    core.stats.permuted(by_kernel)
                if by_kernel:
                    continue
                for into, part in _pieces(target, source, packing):
                    into.add_(part) if add else into.copy_(part)
                continue
            if not packing.verbatim:
                core.stats.permuted(False, len(members))
            for k, index in members:
                target = rows[index].view(packing.tile_dims)
                piece = source[packing.place(k)]
                target.add_(piece) if add else target.copy_(piece)


def _pieces(
    target: torch.Tensor, source: torch.Tensor, packing: Packing
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Both cut along the source's slowest tile dimension, so that what a piece reads stays in the device's cache.

    In canonical order every cache line of the source holds elements of many tiles and is read once per tile.
    """
    first = len(packing.counts)
    dims = [d for d in range(first, source.ndim) if source.shape[d] > 1]
    if packing.verbatim or source.device.type != "cuda" or not dims:
        yield target, source
        return
    dim = max(dims, key=source.stride)
    extent = source.shape[dim]
    step = max(1, extent * CACHED // (source.numel() * source.element_size()))
    for start in range(0, extent, step):
        length = min(step, extent - start)
        yield target.narrow(dim, start, length), source.narrow(dim, start, length)


def _consecutive(members: Sequence[tuple[int, int]]) -> bool:
    first = members[0][1]
    return all((k, index) == (i, first + i) for i, (k, index) in enumerate(members))


def _by_slab(tiles: Sequence[tuple[int, Slot]]) -> dict[Slab, list[tuple[int, int]]]:
    groups: dict[Slab, list[tuple[int, int]]] = {}
    for k, slot in tiles:
        groups.setdefault(slot.slab, []).append((k, slot.place))
    return groups
