"""Ctrl-C while tiles are submitted or awaited. Oracle: values as before, and a carrier with nothing left to end."""

from __future__ import annotations

import _thread
import random
import signal
import threading
import time

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TileSelection, TileSet
from strideweave.testing import gated

VALUES = torch.arange(1.0, 17.0)


@pytest.fixture
def full():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield sw.TiledEvictable.from_torch(VALUES.clone(), (2,), primary_capacity=3)
    signal.signal(signal.SIGINT, before)


def nothing_is_left(full):
    """Within ten seconds all has ended, the values are as before, and the carrier can be released."""
    carrier, found = full.carrier, []

    def look():
        carrier.wait_idle()
        found.append(carrier.project(full, TileSelection([range(8)])).wait().tolist())
        carrier.wait_idle()
        carrier.release()
        found.append("released")

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    thread.join(10)
    assert found == [VALUES.tolist(), "released"]


WAITS = {
    "hold": lambda full: full.carrier.hold(TileSet([(4,), (5,)])).__enter__(),
    "operation": lambda full: sw.relu(full),
    "promote": lambda full: full.carrier.promote(TileSet([(4,)])),
    "set_value": lambda full: full.carrier.set_value(4, VALUES[4].item()),
    "add": lambda full: full.carrier.update(TileSelection([[4]]), sw.tensor([0.0, 0.0]), "add").wait(),
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS)
def test_a_wait_that_is_interrupted_leaves_nothing_behind(full, wait):
    with gated("copy") as gate:

        def interrupt():
            gate.reached.wait(10)
            time.sleep(0.05)
            _thread.interrupt_main()
            # The interrupt may come while the waiting thread itself copies.
            time.sleep(0.05)
            gate.open()

        thread = threading.Thread(target=interrupt)
        thread.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                wait(full)
                time.sleep(5)
        finally:
            thread.join()
    nothing_is_left(full)


def test_an_interrupt_of_a_submission_is_one_before_or_one_after(full):
    # Without that, a copy that was queued already would write to a place that others have by then.
    rng, carrier = random.Random(5), full.carrier
    ring = signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGINT))
    zeros = sw.tensor([0.0] * 4)
    actions = (
        lambda k: carrier.promote_async(TileSet([(k,)])),
        lambda k: carrier.evict_async(TileSet([(k,)])),
        lambda k: carrier.update(TileSelection([[k, (k + 1) % 8]]), zeros, "add"),
    )
    try:
        for _ in range(150):
            act, tile = rng.choice(actions), rng.randrange(8)
            try:
                signal.setitimer(signal.ITIMER_REAL, rng.uniform(1e-6, 3e-4))
                act(tile)
                time.sleep(1e-3)
            except KeyboardInterrupt:
                pass
            signal.setitimer(signal.ITIMER_REAL, 0)
            carrier.wait_idle()
    finally:
        signal.signal(signal.SIGALRM, ring)
    nothing_is_left(full)
