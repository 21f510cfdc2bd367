"""A prefetcher's own promotions: waited for, and failures that are raised once. Oracle: where tiles are, and values."""

from __future__ import annotations

import threading
import time

import pytest
from expert_tiles import choose, tiles

import strideweave as sw
from strideweave.carriers.tiled_evictable import Prefetcher
from strideweave.testing import Fault, fail_at, gated


def failed(prefetcher, *experts):
    """Begin a promotion that fails, and see its end."""
    with fail_at(1, "copy"):
        handle = prefetcher.promote(tiles(*experts))
        with pytest.raises(Fault):
            handle.wait()


@pytest.mark.parametrize("known", ["before", "meanwhile"])
def test_a_failure_is_raised_by_the_first_projection_of_its_tiles(experts, known):
    """Whether it had failed before that projection or fails while it waits; the next one fetches by itself."""
    carrier, prefetcher = experts.carrier, Prefetcher(experts.carrier)
    if known == "before":
        failed(prefetcher, 0, 1)
        assert prefetcher.project(experts.tensor, choose(2)).wait().size() == 6
        with pytest.raises(Fault):
            prefetcher.project(experts.tensor, choose(1))
    else:
        with fail_at(1, "copy", error=_late):
            prefetcher.promote(tiles(0, 1))
            with pytest.raises(Fault):
                prefetcher.project(experts.tensor, choose(1))
    carrier.wait_idle()
    assert prefetcher.project(experts.tensor, choose(1, 0)).wait().carrier.get_value(0) == 7.0
    prefetcher.wait()


def _late():
    """The fault, once the thread that projects has had time to begin to wait."""
    time.sleep(0.05)
    return Fault("injected fault")


def test_tiles_whose_promotion_failed_are_promoted_again(experts):
    prefetcher = Prefetcher(experts.carrier)
    failed(prefetcher, 0, 1)
    prefetcher.promote(tiles(1, 2)).wait()
    assert experts.carrier.primary_tiles == tiles(1, 2)
    # The newer promotion has taken the place of the one that failed.
    assert prefetcher.project(experts.tensor, choose(0, 1)).wait().size() == 12
    prefetcher.wait()


def test_wait_is_for_everything_and_raises_each_failure_once(experts):
    prefetcher = Prefetcher(experts.carrier)
    failed(prefetcher, 0)
    failed(prefetcher, 1)
    for _ in range(2):
        with pytest.raises(Fault):
            prefetcher.wait()
    with gated("copy") as gate:
        prefetcher.promote(tiles(2))
        waiting = threading.Thread(target=prefetcher.wait)
        waiting.start()
        waiting.join(0.05)
        assert waiting.is_alive()
        gate.open()
        waiting.join(20)
    assert not waiting.is_alive() and experts.carrier.primary_tiles == tiles(2)


def test_a_projection_is_passed_on_as_it_is_given(experts):
    prefetcher, destination = Prefetcher(experts.carrier), sw.CPU(6)
    compact = prefetcher.project(experts.tensor, choose(3), destination, order="tile").wait()
    assert compact.carrier is destination and destination.get_value(0) == 19.0
    with pytest.raises(TypeError, match="TileSelection"):
        prefetcher.project(experts.tensor, tiles(3))
    with pytest.raises(TypeError, match="of a tensor, pass its carrier"):
        Prefetcher(experts.tensor)
