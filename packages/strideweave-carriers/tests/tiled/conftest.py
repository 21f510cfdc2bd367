"""Tiled tensors with known values, for every test here. The oracle is the flat list of slot values."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from math import prod
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection

# Helpers beside these tests are imported by name.
sys.path.insert(0, str(Path(__file__).resolve().parent))


class Recorder:
    """A policy that notes what it is asked and gives prepared plans."""

    def __init__(self, *plans):
        self.plans, self.asked = list(plans), []

    def plan(self, required, purpose):
        self.asked.append((required, purpose))
        given = self.plans.pop(0) if self.plans else sw.ResidencyPlan()
        if isinstance(given, BaseException):
            raise given
        return given() if callable(given) else given


def make(
    grid=(4, 1, 1),
    tile=(1, 3, 2),
    where="secondary",
    dtype=sw.Float32,
    layout=None,
    prototype=None,
    **options,
):
    """A full tiled tensor whose slot i holds i + 1 (as its type can), and everything a test compares it with."""
    size = prod(grid) * prod(tile)
    kind = prototype or (lambda n: sw.CPU(n, dtype=dtype))
    tiers = {name: kind(size if name == where else 0) for name in ("primary", "secondary")}
    values = torch.arange(1, size + 1)
    if where != "none":
        data = values.to(dtype.torch()).view(torch.uint8).numpy().tobytes()
        tiers[where].store_bytes(0, memoryview(data))
    carrier = TiledEvictable(tiers["primary"], tiers["secondary"], grid, tile, **options)
    tensor = carrier.full_tensor(layout and layout(carrier))
    return SimpleNamespace(
        carrier=carrier, tensor=tensor, t=tensor, values=values.to(dtype.torch()), tiers=tiers, size=size
    )


def dense(tensor: sw.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The logical values of a full tensor, one dimension per mode, by walking every coordinate."""
    sizes = [m.size() for m in tensor.layout.modes()]
    out = torch.empty(sizes, dtype=values.dtype)
    modes = tensor.layout.modes()
    for coordinate in torch.cartesian_prod(*[torch.arange(n) for n in sizes]).view(-1, len(sizes)).tolist():
        out[tuple(coordinate)] = values[sum(m(c) for m, c in zip(modes, coordinate, strict=True))]
    return out


def by_mode(tensor: sw.Tensor) -> torch.Tensor:
    """An ordinary tensor's values with one dimension per mode."""
    return dense(
        tensor, torch.frombuffer(_bytes(tensor.carrier), dtype=tensor.dtype().torch())[tensor.offset :]
    )


def _bytes(carrier: sw.Carrier) -> bytearray:
    data = bytearray(carrier.nbytes())
    carrier.load_bytes(0, memoryview(data))
    return data


def pick(full: torch.Tensor, selection: TileSelection, tile) -> torch.Tensor:
    """What projecting ``selection`` of ``full`` must give: index each axis by the elements of its tiles."""
    for axis, (taken, extent) in enumerate(zip(selection.per_axis, tile, strict=True)):
        index = torch.tensor([c * extent + i for c in taken for i in range(extent)])
        full = full.index_select(axis, index)
    return full


def snapshot(carrier: TiledEvictable):
    """Everything visible: states, version, values of valid tiles, requests that have not ended."""
    tiles = {}
    slots = prod(carrier.tile_shape)
    for code in range(prod(carrier.grid_shape)):
        state = carrier.tile_state(carrier.geometry.coordinate(code))
        values = [carrier.get_value(code * slots + i) for i in range(slots)] if state.valid else None
        tiles[code] = (state, repr(values))
    return (
        tiles,
        carrier.version,
        carrier._core.busy(),
        carrier._core.primary.used,
        carrier._core.secondary.used,
    )


@pytest.fixture
def tiled():
    """``make`` and the oracles."""
    return SimpleNamespace(
        make=make, dense=dense, by_mode=by_mode, pick=pick, snapshot=snapshot, Recorder=Recorder
    )


@pytest.fixture
def experts():
    """Four experts of 3 by 2 on secondary."""
    return make()


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Worker threads must not outlive a test's gate: the seam is empty again afterwards."""
    from strideweave import seam

    yield
    assert seam.hook is None
