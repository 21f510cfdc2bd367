"""Ctrl-C at each place where Python may raise it: as a function begins, and as a call of C code returns.

Oracle: nothing is pinned, claimed or under way afterwards, and every value is as before. The one place left out is the
first step of a hold's ``__exit__``, where no code of ours has run.
"""

from __future__ import annotations

import signal
import sys
import threading

import pytest
import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection

TILES, SLOTS = 6, 4
VALUES = torch.arange(1.0, TILES * SLOTS + 1)
PAIR = TileSelection([[1, 0]])


@pytest.fixture(autouse=True)
def default_handler():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    torch.set_grad_enabled(True)


def make():
    secondary = sw.CPU(VALUES.numel())
    secondary.flat().copy_(VALUES)
    return TiledEvictable(sw.CPU(0), secondary, (TILES,), (SLOTS,), primary_capacity=3).full_tensor()


def interrupted(n, act):
    """How many such places ``act`` passed, interrupted at the n-th."""
    passed = 0

    def look(frame, event, arg):
        nonlocal passed
        name = frame.f_code.co_filename
        if event not in ("call", "c_return") or "/strideweave/" not in name or name.endswith("interrupts.py"):
            return
        if event == "call" and frame.f_code.co_name == "__exit__" and name.endswith("hold.py"):
            return
        passed += 1
        if passed == n:
            signal.raise_signal(signal.SIGINT)

    outer = sys.getprofile()
    sys.setprofile(look)
    try:
        act()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(outer)
    return passed


def nothing_is_left(carrier):
    thread = threading.Thread(target=carrier.wait_idle, daemon=True)
    thread.start()
    thread.join(10)
    core = carrier._core
    assert not thread.is_alive() and not core.busy(), f"incomplete {core.busy()}"
    records = list(core.table.touched())
    assert not [r.code for r in records if r.needed() or r.transit or r.claim]
    assert not carrier._readers and not carrier._writers and not any(core.held.values())
    assert core.primary.used == sum(r.primary is not None for r in records)
    assert torch.is_grad_enabled() and sw.is_grad_enabled()


def held(full):
    with full.carrier.hold(PAIR):
        pass


def backward(full):
    ones = sw.CPU(VALUES.numel()).new_like([1.0] * VALUES.numel())
    sw.relu(sw.mul(full, full)).backward(sw.Tensor(ones, 0, sw.Layout(full.shape)))


def promoted(full):
    full.carrier.promote(PAIR)


def evicted(full):
    full.carrier.evict(PAIR)


def nothing(full):
    """No need to prepare."""


EVERY = TileSelection([range(TILES)])
ZEROS = sw.tensor([0.0] * 2 * SLOTS)
CASES = {
    "resident projection": (promoted, lambda full: full.carrier.project(full, PAIR), 1),
    "projection of missing tiles": (evicted, lambda full: full.carrier.project(full, PAIR).wait(), 1),
    "projection past primary": (nothing, lambda full: full.carrier.project(full, EVERY).wait(), 1),
    "promotion": (evicted, lambda full: full.carrier.promote_async(PAIR), 1),
    "eviction": (promoted, lambda full: full.carrier.evict_async(PAIR), 1),
    "update": (nothing, lambda full: full.carrier.update(PAIR, ZEROS, "add"), 1),
    "scatter": (nothing, lambda full: full.carrier.scatter(ZEROS, full, PAIR, "add"), 1),
    "hold": (evicted, held, 1),
    "set_value": (nothing, lambda full: full.carrier.set_value(5, 6.0), 1),
    "operation": (nothing, lambda full: sw.reduce_sum(full, "a ->"), 3),
    "backward": (nothing, backward, 23),
    "read": (
        evicted,
        lambda full: sw.to_torch(sw.mul(full.carrier.project(full, PAIR).wait(), 2.0)).sum(),
        1,
    ),
    "made": (nothing, lambda full: sw.TiledEvictable.from_torch(VALUES.view(4, 6), (2, 3)), 1),
}


# A generator that is closed while the exception passes is a place too, and what comes there goes to stderr.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("prepare", "act", "step"), CASES.values(), ids=CASES)
def test_wherever_it_comes_nothing_is_left(prepare, act, step):
    full = make()
    prepare(full)
    act(full)
    full.carrier.wait_idle()
    n = 1
    while True:
        full.grad = None
        prepare(full)
        passed = interrupted(n, lambda: act(full))
        nothing_is_left(full.carrier)
        if passed < n:
            break
        n += step
    assert n > 50, "these are all places there are"
    compact = full.carrier.project(full, EVERY).wait()
    assert torch.equal(sw.to_torch(compact).reshape(-1), VALUES)
    full.carrier.release()
