"""CUDA copies: asynchrony, stream order, capture, fork, exit. Oracle: the values written before the copy."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time

import pytest
import torch

import strideweave as sw
from strideweave.movement import driver
from strideweave.testing import Fault, fail_at, sweep

pytestmark = [pytest.mark.gpu, pytest.mark.spec("cuda-movement")]

DELAY = 200_000_000  # cycles, about 0.1 s


def pinned(values):
    carrier = sw.CPU(len(values), pinned=True)
    carrier.flat().copy_(torch.tensor(values))
    return sw.Tensor(carrier, 0, sw.Layout(len(values)))


HOST = {
    "pinned": pinned,
    "pageable": lambda values: sw.tensor(values),
    "generic": lambda values: sw.tensor(values, carrier=sw.Generic()),
    "file": lambda values: sw.tensor(values, carrier=sw.FileBacked(None, 0)),
}
kinds = pytest.mark.parametrize("kind", HOST)


@kinds
def test_round_trip_is_exact(kind):
    values = torch.randn(50_000).tolist()
    source = HOST[kind](values)
    there = sw.move(source, sw.CUDA(0))
    assert torch.equal(sw.to_torch(there).cpu(), torch.tensor(values))
    back = sw.move(there, source.carrier.allocate_like(0))
    assert back.tolist() == source.tolist()


@pytest.mark.parametrize("mib", [1, 17, 65, 130])
def test_pieces_larger_than_the_ring_are_exact(mib):
    words = torch.randint(0, 1 << 20, (mib << 18,), dtype=torch.int32)
    source = sw.from_torch(words)
    there = sw.move(source, sw.CUDA(0, dtype=sw.Int32))
    assert torch.equal(sw.to_torch(there).cpu(), words)
    assert torch.equal(sw.to_torch(sw.move(there, sw.CPU(0, dtype=sw.Int32))), words)


def test_many_moves_in_flight_from_many_threads():
    """Parts of pinned memory to the device and back, events used again and again. Oracle: the values written."""
    rounds, count, size = 20, 12, 5000
    failures = []

    def work(seed):
        rng = random.Random(seed)
        hosts = [sw.CPU(size, dtype=sw.Int32, pinned=True) for _ in range(count)]
        backs = [sw.CPU(size, dtype=sw.Int32, pinned=True) for _ in range(count)]
        devices = [sw.CUDA(size, dtype=sw.Int32) for _ in range(count)]
        for _ in range(rounds):
            spans = [sorted(rng.sample(range(size + 1), 2)) for _ in range(count)]
            for host in hosts:
                host.flat().random_(0, 1 << 30)
            parts = [
                sw.Tensor(h, at, sw.Layout((end - at,))) for h, (at, end) in zip(hosts, spans, strict=True)
            ]
            there = [sw.move_async(p, d) for p, d in zip(parts, devices, strict=True)]
            rng.shuffle(there)
            moved = {id(handle.wait().carrier): handle.wait() for handle in there}
            home = [sw.move_async(moved[id(d)], b) for d, b in zip(devices, backs, strict=True)]
            for handle, host, back, (at, end) in zip(home, hosts, backs, spans, strict=True):
                handle.wait()
                if not torch.equal(back.flat()[: end - at], host.flat()[at:end]):
                    failures.append((seed, at, end))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_without_the_driver_torch_copies(monkeypatch):
    """As on devices of other makers. Oracle: the values written."""
    monkeypatch.setattr(driver, "_calls", lambda: None)
    values = torch.randn(5000).tolist()
    for kind in ("pinned", "pageable"):
        there = sw.CUDA(5000)
        assert sw.move_async(HOST[kind](values), there).wait().tolist() == HOST[kind](values).tolist()
        assert sw.move(HOST[kind](values), there).tolist() == HOST[kind](values).tolist()


def test_a_copy_that_the_driver_refuses_changes_nothing(monkeypatch):
    source, target = pinned([1.0, 2.0]), sw.CUDA(2)
    monkeypatch.setattr(driver._calls(), "copy", lambda *_: 1)
    for act in (sw.move, sw.move_async):
        with pytest.raises(RuntimeError, match="invalid argument"):
            act(source, target)
    monkeypatch.undo()
    assert target.version == 0 and target.is_mutable()
    assert sw.move(source, target).tolist() == [1.0, 2.0]


def delayed(direction):
    from strideweave.movement.cuda_lanes import lane

    with torch.cuda.stream(lane(torch.cuda.current_device(), direction).stream):
        torch.cuda._sleep(DELAY * 3)


def test_handles_return_before_a_delayed_copy_and_compute_goes_on():
    def unrelated():
        other = sw.move(sw.from_torch(torch.ones(4, device="cuda")), sw.CUDA(0))
        return sw.to_torch(other * 2).cpu().tolist()

    # Kernels load at first use, which waits for the whole device.
    sw.move(pinned([1.0]), sw.CUDA(0)), unrelated()
    delayed("h2d")
    started = time.perf_counter()
    handle = sw.move_async(pinned([1.0, 2.0]), sw.CUDA(0))
    assert time.perf_counter() - started < 0.1 and not handle.done
    assert unrelated() == [2.0] * 4
    assert not handle.done, "the copy still waits while other work has finished"
    assert handle.wait().tolist() == [1.0, 2.0] and handle.done


@kinds
def test_a_copy_waits_for_the_kernel_that_makes_its_source(kind):
    target = HOST[kind]([0.0] * 4096).carrier.allocate_like(0)
    stream = torch.cuda.Stream()
    data = torch.zeros(4096, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(DELAY)
        data.add_(3)
        handle = sw.move_async(sw.from_torch(data), target)
    assert set(handle.wait().tolist()) == {3.0}


@kinds
def test_a_copy_does_not_overwrite_what_earlier_kernels_read(kind):
    carrier = sw.CUDA(4096)
    carrier.flat().fill_(1)
    source = HOST[kind]([2.0] * 4096)
    stream = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(DELAY)
        seen = carrier.flat().clone()
        handle = sw.move_async(source, carrier)
    handle.wait()
    stream.synchronize()
    assert torch.all(seen == 1) and torch.all(carrier.flat() == 2)


def test_pageable_reads_right_after_wait_are_exact_each_time():
    data = torch.zeros(1 << 16, device="cuda")
    for i in range(1000):
        data.fill_(i)
        out = sw.to_torch(sw.move(sw.from_torch(data), sw.CPU(0)))
        assert out[0] == i and out[-1] == i and torch.all(out == i)


@pytest.mark.parametrize("kind", ["pinned", "pageable"])
def test_every_fault_leaves_both_ends(kind):
    source, target = HOST[kind]([1.0, 2.0]), sw.CUDA(0)

    def as_before():
        assert target.size() == 0 and target.version == 0 and source.tolist() == [1.0, 2.0]

    assert sweep(lambda: sw.move(source, target), as_before) >= 3
    there = sw.Tensor(target, 0, sw.Layout(2))
    assert there.tolist() == [1.0, 2.0]
    with fail_at(1, "kernel"), pytest.raises(Fault):
        sw.relu(there)
    assert sw.relu(there).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("kind", ["pinned", "pageable"])
def test_a_late_fault_leaves_no_copy_in_flight(kind):
    """Two runs, the second fails: by then the first has landed, so that its memory may be given back."""
    from strideweave.movement.cuda import FROM_DEVICE, TO_DEVICE
    from strideweave.movement.transfer import Run

    n = 1 << 20
    source, target = HOST[kind]([1.0] * n).carrier, sw.CUDA(n)
    for transfer, ends in ((TO_DEVICE, (source, target)), (FROM_DEVICE, (target, source))):
        runs = (Run(0, 0, 2 * n), Run(2 * n, 2 * n, 2 * n))
        for work in (transfer.perform, lambda *a, t=transfer: t.submit(*a).result()):
            with fail_at(2, "copy"), pytest.raises(Fault):
                work(*ends, runs)
            assert all(torch.cuda.Stream.query(s) for s in _lane_streams())
            work(*ends, runs)


def _lane_streams():
    from strideweave.movement import cuda_lanes

    return [lane.stream for lane in cuda_lanes._lanes.values()]


@pytest.mark.parametrize("kind", ["pinned", "pageable"])
def test_another_threads_capture_is_not_disturbed(kind):
    source, target = HOST[kind]([1.0] * 4096), sw.CUDA(4096)
    back = HOST[kind]([0.0] * 4096).carrier
    sw.move(source, target)
    sw.move(sw.Tensor(target, 0, sw.Layout(4096)), back)
    stop, errors = threading.Event(), []

    def mover():
        while not stop.is_set():
            try:
                sw.move(source, target)
                sw.move(sw.Tensor(target, 0, sw.Layout(4096)), back)
            except BaseException as error:
                errors.append(error)
                return

    x = torch.ones(1024, device="cuda")
    thread = threading.Thread(target=mover)
    thread.start()
    try:
        for _ in range(20):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="global"):
                y = x
                for _ in range(50):
                    y = y * 1.0
            graph.replay()
    finally:
        stop.set()
        thread.join(30)
    torch.cuda.synchronize()
    assert not errors and torch.all(y == 1)


def test_moving_on_a_capturing_stream_is_refused():
    source, target = pinned([1.0]), sw.CUDA(1)
    sw.move(source, target)
    graph = torch.cuda.CUDAGraph()
    x = torch.ones(4, device="cuda")
    with torch.cuda.graph(graph):
        with pytest.raises(RuntimeError, match="captured"):
            sw.move_async(source, target)
        x = x + 1
    assert sw.move(source, target).tolist() == [1.0]


def test_evictable_between_device_and_host():
    carrier = sw.Evictable(sw.CUDA(0), sw.tensor([1.0, -2.0]).carrier)
    x = sw.Tensor(carrier, 0, sw.Layout((2,)))
    y = sw.relu(x)
    assert type(y.carrier) is sw.CUDA and y.tolist() == [1.0, 0.0]
    y.backward(sw.ones((2,), carrier=sw.CUDA(0)))
    assert type(x.grad.carrier) is sw.Evictable
    carrier.evict()
    assert x.tolist() == [1.0, -2.0]


def test_constructors_and_interchange():
    x = torch.arange(6.0, device="cuda").reshape(2, 3)
    tensor = sw.from_torch(x)
    assert type(tensor.carrier) is sw.CUDA and sw.to_torch(tensor).data_ptr() == x.data_ptr()
    assert sw.from_dlpack(x).tolist() == [0, 3, 1, 4, 2, 5]
    assert sw.zeros((2, 2), carrier=sw.CUDA(0)).tolist() == [0.0] * 4
    assert "CUDA" in repr(tensor)


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


def test_fork_is_refused_by_name():
    out = run(
        "import os, torch, strideweave as sw\n"
        "x = sw.move(sw.ones(4), sw.CUDA(0))\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: sw.relu(x)\n"
        "    except sw.ForkedProcessError as e: os._exit(0 if 'spawn' in str(e) else 8)\n"
        "    os._exit(9)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), x.tolist())\n"
    )
    assert out.stdout.strip() == "0 [1.0, 1.0, 1.0, 1.0]", out.stderr


@pytest.mark.parametrize("pin", [True, False])
def test_exit_during_device_copies_is_clean(pin):
    out = run(
        "import torch, strideweave as sw\n"
        f"c = sw.CPU(1 << 28, pinned={pin}, empty=True)\n"
        "h = sw.move_async(sw.Tensor(c, 0, sw.Layout(1 << 28)), sw.CUDA(0))\n"
        "d = sw.move_async(sw.from_torch(torch.ones(1 << 26, device='cuda')), sw.CPU(0))\n"
        "print('begun')\n"
    )
    assert out.returncode == 0 and out.stdout.strip() == "begun" and out.stderr == "", out.stderr
