"""Destinations that hold values already: a projection that fails leaves them there. Oracle: the values before."""

from __future__ import annotations

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import ResidencyPlan, TiledEvictable, TileSelection, TileSet
from strideweave.testing.faults import Fault, fail_at, sweep

TILES, TILE, CODES = 6, 4, (4, 1, 5, 0)


def on_secondary(capacity: int, resident: tuple[int, ...]) -> TiledEvictable:
    secondary = sw.CPU(TILES * TILE)
    secondary.flat().copy_(torch.arange(float(TILES * TILE)))
    carrier = TiledEvictable(sw.CPU(0), secondary, (TILES,), (TILE,), primary_capacity=capacity)
    carrier.promote(TileSet((c,) for c in resident))
    return carrier


def with_zeros() -> TiledEvictable:
    """A gradient that one tile has contributed to."""
    full = on_secondary(2, ()).full_tensor()
    compact = full.carrier.project(full, TileSelection([[5]])).wait()
    compact.backward(sw.from_torch(torch.arange(float(TILE))))
    assert full.grad is not None and isinstance(full.grad.carrier, TiledEvictable)
    return full.grad.carrier


class Streams:
    """Of several tiles one goes onto primary; the others are read past it."""

    def plan(self, required: TileSet, purpose: str) -> ResidencyPlan:
        return ResidencyPlan(promote=TileSet(required.coordinates[:1]))


def by_policy() -> TiledEvictable:
    secondary = sw.CPU(TILES * TILE)
    secondary.flat().copy_(torch.arange(float(TILES * TILE)))
    return TiledEvictable(
        sw.CPU(0), secondary, (TILES,), (TILE,), primary_capacity=1, residency_policy=Streams()
    )


MADE = {
    "all missing": lambda: on_secondary(6, ()),
    "some resident": lambda: on_secondary(6, (1, 5)),
    "all resident": lambda: on_secondary(6, CODES),
    "no room": lambda: on_secondary(2, (3,)),
    "some resident and no room": lambda: on_secondary(2, (1, 5)),
    "zeros": with_zeros,
    "policy": by_policy,
}


@pytest.mark.spec("A42", "LIFE.failure")
@pytest.mark.parametrize("order", ["tile", "canonical"])
@pytest.mark.parametrize("how", MADE)
def test_a_failure_leaves_what_was_there(how, order):
    """Every provider call fails once."""
    n, failures = 0, 0
    while True:
        n += 1
        carrier = MADE[how]()
        given = sw.CPU(len(CODES) * TILE + 3)
        given.flat().fill_(7.0)
        version = given.version
        expected = [carrier.get_value(c * TILE + i) for c in CODES for i in range(TILE)]
        with fail_at(n) as counter:
            try:
                compact = carrier.project(
                    carrier.full_tensor(), TileSelection([CODES]), given, order=order
                ).wait()
            except Fault:
                compact = None
        if compact is not None:
            break
        failures += 1
        assert counter.fired and given.flat().tolist() == [7.0] * given.size()
        assert given.version == version
        carrier.wait_idle()
        again = carrier.project(carrier.full_tensor(), TileSelection([CODES]), given, order=order).wait()
        assert again.tolist() == expected
    assert not counter.fired and failures >= 2
    assert compact.tolist() == expected
    assert given.flat()[-3:].tolist() == [7.0] * 3


@pytest.mark.spec("A106", "LIFE.failure")
@pytest.mark.parametrize("order", ["tile", "canonical"])
@pytest.mark.parametrize("how", MADE)
def test_an_empty_destination_is_empty_again_after_a_failure(how, order):
    """Whichever provider call fails; it can be used for the next projection, or for anything else."""
    carrier, destination = MADE[how](), sw.CPU(0)
    full, selection = carrier.full_tensor(), TileSelection([CODES])

    def verify():
        carrier.wait_idle()
        assert destination.size() == 0 and destination.version == 0
        destination.hold_for_write("a probe")
        destination.drop_write(False)

    kept = []
    faults = sweep(
        lambda: kept.append(carrier.project(full, selection, destination, order=order).wait()), verify
    )
    assert faults >= 1 and kept[0].carrier is destination and destination.size() == len(CODES) * TILE
