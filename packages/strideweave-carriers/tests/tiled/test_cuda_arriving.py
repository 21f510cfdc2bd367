"""Missing tiles on a device: whose memory their values are in, and who sees to them. Oracle: the values on the host."""

from __future__ import annotations

import threading

import pytest
import torch
from test_tiled_cuda import SECOND, choose, host, make

import strideweave as sw
from strideweave.movement.cuda_lanes import lane

pytestmark = [pytest.mark.gpu]


def short(**options):
    """A carrier whose misses take the short way: one slab, made by a first projection."""
    carrier, tensor, full = make(tile=(1, 256, 512), primary_capacity=8, **options)
    # Kernels load at first use, which waits for the whole device.
    carrier.project(tensor, choose(0, 1), order="tile").wait()
    carrier.evict(carrier.primary_tiles)
    return carrier, tensor, full


@pytest.mark.parametrize("on_stream", [False, True])
def test_memory_is_not_used_again_while_a_kernel_still_reads_it(on_stream):
    carrier, tensor, full = short()
    side = torch.cuda.Stream()
    for k in range(4):
        with torch.cuda.stream(side):
            handle = carrier.project(tensor, choose(k, k + 2), order="tile")
            compact = handle.on_stream() if on_stream else handle.wait()
            torch.cuda._sleep(SECOND // 40)
            copied = sw.to_torch(compact).clone()
        del compact, handle
        for other in range(4):
            # Gathers on the copy stream into memory like that.
            carrier.project(tensor, choose((k + 4 + other) % 8, (k + 3) % 8), order="tile").wait()
            carrier.evict(carrier.primary_tiles)
        torch.cuda.synchronize()
        assert torch.equal(copied.cpu(), full[[k, k + 2]])


def test_a_thread_in_on_stream_needs_nobody():
    """The reapers are kept asleep: whoever asks for the tensor waits for the copy and queues the gather."""
    carrier, tensor, full = short()
    reaper = lane(0, "h2d").reaper
    look = reaper._look
    try:
        stop = threading.Event()
        reaper._look = lambda watch: stop.wait(0.01) and False
        compact = carrier.project(tensor, choose(6, 1), order="tile").on_stream()
        assert torch.equal(host(compact), full[[6, 1]])
    finally:
        reaper._look = look
        stop.set()
    carrier.wait_idle()


def test_nobody_needs_to_wait():
    """A dropped handle: the reaper commits and gathers by itself, within moments."""
    carrier, tensor, _ = short()
    carrier.project(tensor, choose(6, 1))
    carrier.wait_idle()
    assert {c[0] for c in carrier.primary_tiles} == {1, 6}


def test_a_projection_waits_for_no_work_of_the_caller():
    """Its values are there while the caller's stream is still busy with what was queued before."""
    carrier, tensor, full = short()
    busy = torch.cuda.Stream()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(SECOND // 4)
        end = busy.record_event()
        handle = carrier.project(tensor, choose(3, 7), order="tile")
    compact = handle.wait()
    assert not end.query()
    assert torch.equal(sw.to_torch(compact).to("cpu"), full[[3, 7]])
