"""Page-locked memory of the exact size with a real driver. Oracles: the values written; torch; the kernel's counts."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time

import pytest
import torch

import strideweave as sw
from strideweave.movement.captures import beside_captures
from strideweave.movement.locked import rounded_by_torch
from strideweave.movement.retirement import retirement

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def one_device():
    if torch.cuda.device_count() != 1:
        pytest.skip("needs exactly one visible GPU; set CUDA_VISIBLE_DEVICES")


MIB = 1 << 20
SPIN = 400_000_000
"""Cycles of a device that take a fifth of a second."""


def pinned(mib=48, **how):
    assert rounded_by_torch(mib * MIB)
    return sw.CPU(mib * MIB // 4, dtype=sw.Int32, pinned=True, **how)


def words(mib=48, seed=0, device="cuda"):
    count = mib * MIB // 4
    return torch.arange(count, dtype=torch.int32, device=device).mul_(-1640531527).add_(seed)


def settled():
    gc.collect()
    return retirement().settle(30)


@pytest.mark.parametrize("other", [True, False])
def test_a_copy_to_the_device_is_under_way_when_its_source_is_dropped(other):
    """As with torch's memory: the copy reads what was there, whoever gets the memory next."""
    torch.cuda.synchronize()
    stream = torch.cuda.Stream() if other else torch.cuda.current_stream()
    targets, expected = [], []
    for seed in range(4):
        carrier = pinned()
        carrier.flat().copy_(words(seed=seed))
        torch.cuda.synchronize()
        targets.append(torch.zeros(carrier.size(), dtype=torch.int32, device="cuda"))
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            torch.cuda._sleep(SPIN)
            targets[-1].copy_(carrier.flat(), non_blocking=True)
        assert not stream.query()
        start = time.perf_counter()
        carrier.release()
        # Asking the stream would wait with the thread that unlocks.
        assert time.perf_counter() - start < 0.1, "dropping it waits for nobody"
        del carrier
        fresh = pinned()
        fresh.flat().fill_(-1)
        del fresh
        expected.append(words(seed=seed))
    assert settled()
    torch.cuda.synchronize()
    assert all(torch.equal(a, b) for a, b in zip(targets, expected, strict=True))


def test_a_copy_from_the_device_is_under_way_when_its_target_is_dropped():
    """It must not write what lies there next. Oracle: memory made meanwhile, and the driver, which reports no fault."""
    source = words(seed=5)
    torch.cuda.synchronize()
    for _ in range(3):
        carrier = pinned()
        torch.cuda._sleep(SPIN)
        carrier.flat().copy_(source, non_blocking=True)
        del carrier
        gc.collect()
        others = [torch.full((12 * MIB,), 7, dtype=torch.int32) for _ in range(3)]
        assert settled()
        others += [pinned().flat().fill_(7) for _ in range(3)]
        torch.cuda.synchronize()
        assert all(bool((one == 7).all()) for one in others)


def test_a_view_keeps_it_until_its_own_end():
    part = pinned().flat()[5:]
    part.copy_(words()[5:])
    torch.cuda.synchronize()
    assert settled() and part.is_pinned()
    assert torch.equal(part.cuda(), words()[5:])


def test_torch_and_carriers_know_it_for_page_locked():
    carrier = pinned()
    flat = carrier.flat()
    views = (
        flat,
        flat[5000:6000],
        flat.view(torch.uint8)[3:],
        flat.reshape(8, -1)[3],
        flat[-1:],
        torch.from_numpy(flat.numpy()),
    )
    assert carrier.is_pinned() and all(view.is_pinned() for view in views)
    flat.copy_(words())
    up = sw.move(sw.Tensor(carrier, 0, sw.Layout(carrier.size())), sw.CUDA(0, dtype=sw.Int32))
    assert torch.equal(up.carrier.flat(), words())
    back = sw.move_async(up, pinned()).wait()
    assert torch.equal(back.carrier.flat(), words(device="cpu"))
    torch.cuda.synchronize()
    start = time.perf_counter()
    torch.cuda._sleep(SPIN)
    up.carrier.flat().copy_(flat, non_blocking=True)
    assert time.perf_counter() - start < 0.05, "torch's own copy returns at once"
    torch.cuda.synchronize()


def test_the_process_takes_what_was_asked_for_and_gives_it_back():
    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * 4096

    pinned()
    assert settled()
    before = resident()
    carrier = pinned(384)
    assert abs(resident() - before - 384 * MIB) < 4 * MIB
    del carrier
    assert settled() and abs(resident() - before) < 4 * MIB


@pytest.mark.parametrize("mode", ["global", "thread_local", "relaxed"])
def test_a_capture_goes_on_while_memory_is_made_and_given_back(mode):
    """While a copy of that memory is under way. Oracles: what the graph gives when replayed; the values written."""
    counter, side = torch.zeros(4, device="cuda"), torch.cuda.Stream()
    dropped, target = [pinned(), pinned()], torch.zeros(12 * MIB, dtype=torch.int32, device="cuda")
    dropped[0].flat().copy_(words())
    expected, made = words(), []
    counter.add_(1)
    torch.cuda._sleep(1)
    torch.cuda.synchronize()

    def copy():
        # torch waits for the device before a capture, so the copy has to begin within it.
        with beside_captures(), torch.cuda.stream(side):
            torch.cuda._sleep(SPIN)
            target.copy_(dropped[0].flat(), non_blocking=True)

    def on_a_thread(what):
        other = threading.Thread(target=what)
        other.start()
        other.join()

    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode=mode):
        counter.add_(1)
        on_a_thread(copy)
        dropped.clear()
        gc.collect()
        made.append(pinned())
        on_a_thread(lambda: made.append(pinned()))
        assert settled(), "given back during the capture"
        counter.add_(1)
    graph.replay()
    torch.cuda.synchronize()
    assert counter.tolist() == [3.0] * 4
    assert torch.equal(target, expected)
    assert len(made) == 2 and all(c.is_pinned() for c in made)


def test_a_capture_goes_on_while_memory_that_was_locked_piece_by_piece_is_released():
    """On the thread that captures. Oracle: what the graph gives when it is replayed."""
    counter, carrier = torch.zeros(4, device="cuda"), sw.CPU(24 * MIB, dtype=sw.UInt8)
    carrier.pin_lazily()
    # The blocking move takes the buffers instead.
    sw.move_async(sw.Tensor(carrier, 0, sw.Layout(carrier.size())), sw.CUDA(0, dtype=sw.UInt8)).wait()
    assert carrier.pinning is not None and carrier.pinning._locked
    counter.add_(1)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="global"):
        counter.add_(1)
        carrier.release()
        assert settled()
        counter.add_(1)
    graph.replay()
    assert counter.tolist() == [3.0] * 4


def test_what_is_asked_for_while_a_device_keeps_memory_from_its_end_is_done():
    """The driver takes no work for that device meanwhile. Oracle: the sum."""
    carrier, stream, near = pinned(), torch.cuda.Stream(), torch.zeros(4, device="cuda")
    target = torch.zeros(carrier.size(), dtype=torch.int32, device="cuda")
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(SPIN)
        target.copy_(carrier.flat(), non_blocking=True)
    del carrier
    assert near.add_(1).sum().item() == 4.0
    assert settled()


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)


@pytest.mark.parametrize("alive", [True, False])
def test_exit_with_such_memory_under_copy_is_clean(alive):
    out = run(
        "import torch, strideweave as sw\n"
        "c = sw.CPU(384 << 20, dtype=sw.UInt8, pinned=True)\n"
        "d = torch.empty(384 << 20, dtype=torch.uint8, device='cuda')\n"
        "torch.cuda._sleep(400_000_000); d.copy_(c.flat(), non_blocking=True)\n"
        f"{'kept = c.flat()' if alive else 'del c'}\n"
        "print('begun')\n"
    )
    assert out.returncode == 0 and out.stdout.strip() == "begun" and out.stderr == "", out.stderr


def test_a_forked_child_reads_it_and_the_parent_goes_on_copying():
    out = run(
        "import os, gc, torch, strideweave as sw\n"
        "c = sw.CPU(12 << 20, dtype=sw.Int32, pinned=True); c = sw.CPU(11 << 20, dtype=sw.Int32, pinned=True)\n"
        "c.flat().fill_(3); d = c.flat().cuda(); r, w = os.pipe()\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    os.read(r, 1); ok = c.get_value(5) == 3; c.release(); del c; gc.collect()\n"
        "    os._exit(0 if ok else 8)\n"
        "c.flat().fill_(4); d.copy_(c.flat(), non_blocking=True); torch.cuda.synchronize()\n"
        "up = bool((d == 4).all()); d.fill_(5); c.flat().copy_(d, non_blocking=True); torch.cuda.synchronize()\n"
        "os.write(w, b'x')\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), up, bool((c.flat() == 5).all()))\n"
    )
    assert out.stdout.strip() == "0 True True", out.stderr


def test_a_forked_child_cannot_have_more():
    out = run(
        "import os, torch, strideweave as sw\n"
        "c = sw.CPU(20 << 20, dtype=sw.UInt8, pinned=True)\n"
        "pid = os.fork()\n"
        "if pid == 0:\n"
        "    try: sw.CPU(20 << 20, dtype=sw.UInt8, pinned=True)\n"
        "    except RuntimeError as e: os._exit(0 if 'spawn' in str(e) or 'CUDA' in str(e) else 8)\n"
        "    os._exit(9)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), c.is_pinned())\n"
    )
    assert out.stdout.strip() == "0 True", out.stderr
