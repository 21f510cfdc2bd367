"""Tiled carriers over what exists already: a torch tensor, or tensors inside safetensors files."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Any

from tilefoundry.ir.safetensors_header import Header

from ...constructors import from_torch as seen
from ...layout import Layout
from ...movement.interrupts import interrupts_deferred
from ...tensor import Tensor
from ..arguments import as_flag
from ..base import Carrier
from ..cpu import CPU
from ..file_backed import FileBacked
from ..stored import Stored, stored
from ..torch_storage import plain_torch
from .coordinates import read_components
from .geometry import TileGeometry

if TYPE_CHECKING:
    import torch

    from .carrier import TiledEvictable


def geometry_for(shape: tuple[int, ...], tile_shape: Iterable[int], what: str) -> TileGeometry:
    """The grid of tiles of ``tile_shape`` over a tensor of ``shape``.

    Raises:
        ValueError: another rank, or an extent that tiles do not divide; the message names the axis.
    """
    tile = read_components(tile_shape, "tile_shape")
    if not shape or min(shape) < 1:
        raise ValueError(
            f"{what}: the shape {shape} has no {'values' if shape else 'axes'} to cut into tiles"
        )
    if len(tile) != len(shape):
        raise ValueError(
            f"{what}: tile_shape {tile} has rank {len(tile)}, the tensor {len(shape)}; give one extent per axis"
        )
    for axis, (extent, step) in enumerate(zip(shape, tile, strict=True)):
        if step < 1 or extent % step:
            raise ValueError(
                f"{what}: axis {axis} of extent {extent} is not divided by the tile extent {step}; "
                "give a divisor of it"
            )
    return TileGeometry(tuple(e // t for e, t in zip(shape, tile, strict=True)), tile)


def row_major_layout(geometry: TileGeometry) -> Layout:
    """The full tensor's Layout when each tile lies with its last axis fastest, as torch and checkpoints have it."""
    strides, step = [], 1
    for extent in geometry.tile_shape[::-1]:
        strides.append(step)
        step *= extent
    shape, stride = [], []
    for tile, grid, inner, outer in zip(
        geometry.tile_shape, geometry.grid_shape, strides[::-1], geometry.outer_strides(), strict=True
    ):
        mode = [(e, s) for e, s in ((tile, inner), (grid, outer)) if e > 1] or [(1, inner)]
        shape.append(mode[0][0] if len(mode) == 1 else tuple(e for e, _ in mode))
        stride.append(mode[0][1] if len(mode) == 1 else tuple(s for _, s in mode))
    return Layout(tuple(shape), tuple(stride))


def require_contiguous_tiles(geometry: TileGeometry, what: str) -> None:
    """Raise ValueError, naming the axis, unless each tile of a row-major tensor is one run of it."""
    partial = [
        a
        for a, (g, t) in enumerate(zip(geometry.grid_shape, geometry.tile_shape, strict=True))
        if g > 1 and t > 1
    ]
    cut = [a for a, g in enumerate(geometry.grid_shape) if g > 1]
    for axis in range(geometry.rank):
        if geometry.tile_shape[axis] > 1 and any(later > axis for later in cut):
            raise ValueError(
                f"{what}: tiles of {geometry.tile_shape} are no runs of the row-major tensor, because axis {axis} "
                f"is not cut to 1 while a later one is cut; cut axis {axis} to 1, or copy the tensor tile by tile"
            )
    assert len(partial) <= 1


def run_offsets(geometry: TileGeometry) -> list[int]:
    """For each tile code the element at which its run begins in the row-major tensor."""
    shape = geometry.logical_shape
    strides = [prod(shape[a + 1 :]) for a in range(len(shape))]
    return [
        sum(
            c * t * s for c, t, s in zip(geometry.coordinate(code), geometry.tile_shape, strides, strict=True)
        )
        for code in range(geometry.tile_count)
    ]


def from_safetensors(
    cls: type[TiledEvictable],
    path: Any,
    name: Any,
    tile_shape: Iterable[int],
    primary: Any,
    options: Any,
) -> Tensor:
    """See ``TiledEvictable.from_safetensors``."""
    found, what = _all_stored(path, name)
    shape = found[0].shape if isinstance(name, str) else (len(found), *found[0].shape)
    geometry = geometry_for(shape, tile_shape, what)
    require_contiguous_tiles(geometry, what)
    dtype = found[0].dtype
    secondary = FileBacked.from_extents(_tile_ranges(geometry, found), dtype)
    tier = CPU(0, dtype=dtype) if primary is None else primary
    carrier = cls(tier, secondary, geometry.grid_shape, geometry.tile_shape, **_of_source(options))
    return carrier._handed_out(row_major_layout(geometry))


def _all_stored(path: Any, name: Any) -> tuple[list[Stored], str]:
    """The tensor, or the tensors of one shape and type that make a stack; what messages call it."""
    names = [name] if isinstance(name, str) else _names(name)
    paths = _paths(path, len(names))
    headers: dict[str, Header] = {}
    found = [stored(p, n, headers) for p, n in zip(paths, names, strict=True)]
    for one, its in zip(found, names, strict=True):
        if (one.shape, one.dtype) != (found[0].shape, found[0].dtype):
            raise ValueError(
                f"from_safetensors: {its!r} is {one.dtype} {one.shape}, {names[0]!r} is {found[0].dtype} "
                f"{found[0].shape}; tensors of one stack have one type and one shape"
            )
    return found, names[0] if isinstance(
        name, str
    ) else f"the stack of {names[0]!r} and {len(names) - 1} more"


def _paths(path: Any, count: int) -> list[str]:
    """The file of each of ``count`` tensors."""
    if isinstance(path, (str, os.PathLike)):
        return [os.fsdecode(path)] * count
    if isinstance(path, (bytes, set, frozenset)) or not isinstance(path, Iterable):
        raise TypeError(
            f"from_safetensors path: expected a path, or one for each tensor, got {type(path).__name__} {path!r}"
        )
    paths = list(path)
    if len(paths) != count:
        raise ValueError(
            f"from_safetensors path: {len(paths)} paths for {count} tensors; give one file, or one for each"
        )
    return [os.fsdecode(p) for p in paths]


def _names(names: Any) -> list[str]:
    """The names of tensors to stack.

    Raises:
        TypeError, ValueError: something else, or none.
    """
    if isinstance(names, (set, frozenset)):
        raise TypeError("from_safetensors name: a set has no order to stack its tensors in; pass a list")
    found: list[str] = []
    for one in names if isinstance(names, Iterable) and not isinstance(names, bytes) else [names]:
        if not isinstance(one, str):
            raise TypeError(
                f"from_safetensors name: expected a tensor's name, or several, got {type(one).__name__} {one!r}"
            )
        found.append(one)
    if not found:
        raise ValueError("from_safetensors name: no names; expected a tensor's, or several to stack")
    return found


def _tile_ranges(geometry: TileGeometry, found: list[Stored]) -> Iterator[tuple[str, int, int]]:
    """The file's range of each tile in turn, several where it reaches over tensors of a stack."""
    item = found[0].dtype.itemsize
    each = prod(geometry.logical_shape) // len(found)
    for start in run_offsets(geometry):
        at, stop = start, start + geometry.tile_slots
        while at < stop:
            k, within = divmod(at, each)
            taken = min(each - within, stop - at)
            yield found[k].path, found[k].begin + within * item, taken * item
            at += taken


def _of_source(options: dict[str, Any]) -> dict[str, Any]:
    """``options`` such that a primary with places for all tiles, which could supply values too, does not."""
    return {"initial": "secondary"} | options


def from_torch(
    cls: type[TiledEvictable],
    source: torch.Tensor,
    tile_shape: Iterable[int],
    primary: Any,
    copy: bool | None,
    options: Any,
) -> Tensor:
    """See ``TiledEvictable.from_torch``."""
    if copy is not None:
        as_flag(copy, "from_torch copy")
    plain = seen(source)
    geometry = geometry_for(tuple(source.shape), tile_shape, "from_torch")
    layout = plain.layout
    shares = copy is not True and _fits(layout, geometry)
    if not shares and copy is False:
        raise ValueError(
            f"from_torch: tiles of {geometry.tile_shape} are no runs of a tensor with strides "
            f"{tuple(source.stride())}; "
            "leave copy out to have them copied"
        )
    if shares:
        values: Carrier = plain.carrier
    else:
        values, layout = _copied(source, geometry, plain), row_major_layout(geometry)
    if source.device.type == "cpu":
        tier = CPU(0, dtype=plain.dtype()) if primary is None else primary
        carrier = cls(tier, values, geometry.grid_shape, geometry.tile_shape, **_of_source(options))
        if not shares:
            carrier._core.mover.keep(values)
    else:
        if primary is not None:
            raise ValueError("from_torch: a tensor on a device is itself the primary tier; leave primary out")
        carrier = cls(
            values, CPU(0, dtype=plain.dtype()), geometry.grid_shape, geometry.tile_shape, **options
        )
    return carrier._handed_out(layout)


def _fits(layout: Layout, geometry: TileGeometry) -> bool:
    from .compatibility import footprint

    try:
        footprint(layout, 0, geometry)
    except ValueError:
        return False
    return layout.cosize() == geometry.slots


def _copied(source: torch.Tensor, geometry: TileGeometry, plain: Tensor) -> Carrier:
    """Tile after tile, each row-major, in the order of codes."""
    carrier = plain.carrier.allocate_like(geometry.slots, empty=True)
    with interrupts_deferred(), plain_torch():
        split: list[int] = []
        for grid, tile in zip(geometry.grid_shape, geometry.tile_shape, strict=True):
            split += [grid, tile]
        rank = geometry.rank
        order = [2 * a for a in reversed(range(rank))] + [2 * a + 1 for a in range(rank)]
        tiles = source.detach().reshape(split).permute(order)
        carrier.flat().view(tiles.shape).copy_(tiles)  # type: ignore[attr-defined] # from_torch gives torch storage
    return carrier
