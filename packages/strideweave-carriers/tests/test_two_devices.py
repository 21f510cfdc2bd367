"""Moves to, from and between two devices, whichever is current. Oracle: the values written at the source."""

from __future__ import annotations

import threading

import pytest
import torch

import strideweave as sw
from strideweave.movement.locked import rounded_by_torch

pytestmark = [pytest.mark.gpu, pytest.mark.two_gpus, pytest.mark.spec("cuda-movement")]

DELAY = 100_000_000  # cycles, about 0.05 s

ACTS = {"blocking": sw.move, "begun": lambda *args: sw.move_async(*args).wait()}
acts = pytest.mark.parametrize("act", ACTS.values(), ids=ACTS)
current = pytest.mark.parametrize("current", [0, 1])


def host(pinned, words):
    carrier = sw.CPU(words.numel(), dtype=sw.Int32, pinned=pinned)
    carrier.flat().copy_(words)
    return sw.Tensor(carrier, 0, sw.Layout((words.numel(),)))


def numbers(n):
    return torch.randint(0, 1 << 30, (n,), dtype=torch.int32)


@acts
@current
@pytest.mark.parametrize("device", [0, 1])
@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("n", [1000, 3 << 20])
def test_host_and_device_whichever_is_current(act, current, device, pinned, n):
    words = numbers(n)
    source, back = host(pinned, words), host(pinned, torch.zeros_like(words))
    with torch.cuda.device(current):
        there = act(source, sw.CUDA(n, dtype=sw.Int32, device=device))
        assert there.carrier.device.index == device
        assert torch.equal(there.carrier.flat().cpu(), words)
        act(there, back.carrier)
        assert torch.cuda.current_device() == current
    assert torch.equal(back.carrier.flat(), words)


@acts
@current
@pytest.mark.parametrize("way", [(0, 1), (1, 0), (1, 1)])
def test_between_devices_whichever_is_current(act, current, way):
    words = numbers(1 << 18)
    first = sw.move(host(True, words), sw.CUDA(words.numel(), dtype=sw.Int32, device=way[0]))
    with torch.cuda.device(current):
        second = act(first, sw.CUDA(words.numel(), dtype=sw.Int32, device=way[1]))
        assert torch.cuda.current_device() == current
    assert second.carrier.device.index == way[1] and torch.equal(second.carrier.flat().cpu(), words)


@acts
@current
@pytest.mark.parametrize("pinned", [True, False])
def test_a_copy_waits_for_the_kernel_on_its_own_device(act, current, pinned):
    n = 4096
    for device in (0, 1):
        carrier = sw.CUDA(n, dtype=sw.Int32, device=device)
        torch.cuda.synchronize(device)
        with torch.cuda.device(device):
            torch.cuda._sleep(DELAY)
            carrier.flat().add_(3)
        with torch.cuda.device(current):
            back = act(
                sw.Tensor(carrier, 0, sw.Layout((n,))),
                host(pinned, torch.zeros(n, dtype=torch.int32)).carrier,
            )
        assert set(back.tolist()) == {3}


def test_fresh_threads_reach_both_devices():
    """A thread that never called the runtime has no context of either device."""
    words, seen = numbers(2000), []

    def work(device, chosen):
        if chosen:
            torch.cuda.set_device(device)
        there = sw.move(host(True, words), sw.CUDA(2000, dtype=sw.Int32, device=device))
        late = sw.move_async(there, host(True, torch.zeros_like(words)).carrier).wait()
        seen.append(torch.equal(late.carrier.flat(), words))

    threads = [threading.Thread(target=work, args=(d, c)) for d in (0, 1) for c in (True, False)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert seen == [True] * 4


@pytest.mark.parametrize("pinned", [True, False])
def test_a_capture_on_a_device_that_is_not_current_is_refused(pinned):
    """The copy would become part of the other device's graph. Oracle: the refusal, and the graph's own result."""
    target, source = sw.CUDA(4, dtype=sw.Int32, device=1), host(pinned, torch.arange(4, dtype=torch.int32))
    sw.move(source, target)
    x = torch.ones(4, device="cuda:1")
    with torch.cuda.device(1):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = x + 1
            with torch.cuda.device(0):
                for act in (sw.move, sw.move_async):
                    with pytest.raises(RuntimeError, match="captured"):
                        act(source, target)
        graph.replay()
        torch.cuda.synchronize()
    assert y.tolist() == [2.0] * 4 and sw.move(source, target).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_page_locked_memory_outlives_its_copies(current, device):
    """Made and dropped under one device while another copies it. Oracle: the values written."""
    words = torch.arange(12 << 20, dtype=torch.int32)
    with torch.cuda.device(current):
        carrier = sw.CPU(words.numel(), dtype=sw.Int32, pinned=True)
        assert carrier.is_pinned() and not rounded_by_torch(carrier.nbytes())
        carrier.flat().copy_(words)
    target = torch.zeros(words.numel(), dtype=torch.int32, device=device)
    with torch.cuda.device(device):
        torch.cuda.synchronize()
        torch.cuda._sleep(200_000_000)
        target.copy_(carrier.flat(), non_blocking=True)
        assert not torch.cuda.current_stream().query(), "torch's own copy returned at once"
    carrier.release()
    with torch.cuda.device(current):
        sw.CPU(words.numel(), dtype=sw.Int32, pinned=True).flat().fill_(-1)
    assert torch.equal(target.cpu(), words)
