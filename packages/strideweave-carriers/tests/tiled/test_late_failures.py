"""A device that fails after its work was handed out. Oracle: whoever asks next is told, once, and nothing is left.

No device fails when asked to, so a mover in host memory stands in: it queues, and says later how it went.
"""

from __future__ import annotations

import gc
import time

import pytest
import torch

from strideweave.carriers.tiled_evictable import TileSelection

CHOSEN = TileSelection([[2, 0], [0], [0]])
LOST = RuntimeError("an illegal memory access was encountered")


class Event:
    def wait(self, stream):
        raise AssertionError("host memory has no streams")


@pytest.fixture(params=["resident", "missing"])
def queued(request, tiled, monkeypatch):
    """A carrier whose gathers end when ``end(error)`` is called; ``project()`` begins one."""
    made = tiled.make()
    mover, ends = made.carrier._core.mover, []
    if request.param == "resident":
        made.carrier.promote(CHOSEN)

    def gather(job, prepared, ended, waited):
        job()
        ends.append(ended)
        return Event()

    def after(here, ended, waited):
        ends.append(ended)
        return Event()

    monkeypatch.setattr(mover, "gather", gather)
    monkeypatch.setattr(mover, "after", after)
    monkeypatch.setattr(mover, "order", lambda stream, events, carrier: None)

    def end(error):
        deadline = time.monotonic() + 30
        while not ends and time.monotonic() < deadline:
            time.sleep(0.001)
        ends.pop()(error)

    made.end = end
    made.project = lambda: made.carrier.project(made.tensor, CHOSEN, order="tile")
    made.expected = tiled.dense(made.tensor, made.values)[[2, 0]]
    return made


@pytest.mark.spec("LIFE.failure")
def test_release_raises_what_nobody_was_told_of(tiled, queued):
    handle = queued.project()
    compact = handle.on_stream()
    assert torch.equal(tiled.by_mode(compact), queued.expected)
    assert handle.on_stream() is compact
    with pytest.raises(RuntimeError, match="incomplete project"):
        queued.carrier.release()
    del handle
    queued.end(LOST)
    gc.collect()
    queued.carrier.wait_idle()
    with pytest.raises(RuntimeError) as caught:
        queued.carrier.release()
    assert caught.value is LOST and queued.carrier.is_released()
    queued.carrier.release()


@pytest.mark.spec("LIFE.failure")
def test_wait_raises_it_and_then_release_does_not(queued):
    handle, other = queued.project(), None
    handle.on_stream()
    queued.end(LOST)
    for _ in range(2):
        with pytest.raises(RuntimeError) as caught:
            handle.wait()
        assert caught.value is LOST
    with pytest.raises(RuntimeError) as caught:
        handle.on_stream()
    assert caught.value is LOST
    # The carrier goes on.
    other = queued.project()
    queued.end(None)
    assert other.wait().size() == 12
    queued.carrier.release()


def test_what_was_never_handed_out_concerns_its_handle_alone(queued):
    handle = queued.project()
    queued.end(LOST)
    queued.carrier.wait_idle()
    del handle
    queued.carrier.release()
