"""Straight device moves over a stand-in for the driver. Oracle: the bytes at the source, and the stand-in's counts."""

from __future__ import annotations

import random
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import strideweave as sw
from strideweave import forks
from strideweave.movement import captures, convoy, cuda_lanes, cuda_straight, driver, straight
from strideweave.testing import Fault, fail_at, sweep

sys.path.insert(0, str(Path(__file__).parent))
from fake_driver import LANE, Library, Stream

pytestmark = pytest.mark.spec("movement")

CALLER, SIZE = 3, 64


@pytest.fixture
def device(monkeypatch):
    """A device whose memory is the host's: stream 3 is the caller's, 7 the lane's; copies move bytes late."""
    library = Library(late=True)
    for name, value in (
        ("_calls", lambda: library),
        ("_bound", SimpleNamespace(generation=forks.generation)),
    ):
        monkeypatch.setattr(driver, name, value)
    monkeypatch.setattr(captures, "_exchange", lambda: captures._no_driver)
    monkeypatch.setattr(captures, "_cell", captures._Cell())
    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    asked = SimpleNamespace(alone=True, current_device=lambda: 0, raw_stream=lambda index: CALLER)
    monkeypatch.setattr(cuda_straight, "_torch", lambda: asked)
    monkeypatch.setattr(cuda_straight, "refuse_capture", lambda index: None)
    monkeypatch.setattr(cuda_lanes, "_lanes", {})
    yield library
    library.finish(LANE)
    for lane in cuda_lanes._lanes.values():
        lane.reaper.stop()


def lane():
    (only,) = cuda_lanes._lanes.values()
    return only


def host(fill):
    carrier = sw.CPU(SIZE, dtype=sw.UInt8)
    carrier.flat().fill_(fill)
    carrier.is_pinned()
    carrier._pinned = True
    return sw.Tensor(carrier, 0, sw.Layout((SIZE,)))


def pairs(count):
    remote = [sw.CUDA.adopt(torch.zeros(SIZE, dtype=torch.uint8), sw.UInt8) for _ in range(count)]
    return [(host(k + 1), target) for k, target in enumerate(remote)]


def read(tensor):
    return tensor.carrier.flat().tolist()


def is_free(tensor, target):
    return target.is_mutable() and not (tensor.carrier._readers or target._readers or target._writers)


def begin(some):
    return [sw.move_async(tensor, target) for tensor, target in some]


def test_a_blocking_move_is_one_copy_on_the_callers_stream(device):
    ((tensor, target),) = pairs(1)
    moved = sw.move(tensor, target)
    assert read(moved) == [1] * SIZE and target.version == 1 and is_free(tensor, target)
    assert device.queued == {CALLER: 1} and not device.events


@pytest.mark.parametrize("per_event", [1, 2, 8])
def test_moves_in_a_row_share_events(device, monkeypatch, per_event):
    monkeypatch.setattr(cuda_lanes, "FULL", per_event * SIZE)
    some = pairs(8)
    handles = begin(some)
    assert device.records == 8 // per_event and device.queued[LANE] == 8
    for k, handle in enumerate(handles):
        assert read(handle.wait()) == [k + 1] * SIZE
    assert all(is_free(*pair) and pair[1].version == 1 for pair in some)
    assert device.records == 8 // per_event


def test_no_convoy_is_longer_than_its_limit(device, monkeypatch):
    monkeypatch.setattr(cuda_lanes, "LONGEST", 3)
    handles = begin(pairs(7))
    assert device.records == 2 and [len(c.flights) for c in {h._completion.convoy: 0 for h in handles}] == [
        3,
        3,
        1,
    ]
    assert [read(h.wait())[0] for h in handles] == list(range(1, 8))


def test_who_waits_waits_for_those_before_the_event_only(device):
    some = pairs(3)
    first, second = begin(some[:2])
    assert read(first.wait()) == [1] * SIZE
    assert second.done, "it shared the event"
    third = sw.move_async(*some[2])
    assert device.done[LANE] == 2 and not third.done


def test_done_comes_without_waiting(device):
    some = pairs(3)
    handles = begin(some)
    assert not any(handle.done for handle in handles)
    device.finish(LANE)
    assert all(handle.done for handle in handles) and all(is_free(*pair) for pair in some)


def test_dropped_handles_end(device):
    some = pairs(5)
    begin(some)
    device.finish(LANE)
    deadline = time.monotonic() + 10
    while not all(pair[1].version for pair in some) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert [int(t.flat()[0]) for _, t in some] == [1, 2, 3, 4, 5] and all(is_free(*pair) for pair in some)


def test_nothing_joins_once_the_lane_waits_for_other_work(device):
    """A convoy that is under way must not come to wait for a kernel of a later move's caller."""
    some = pairs(2)
    first = sw.move_async(*some[0])
    assert lane().clear() is lane().stream
    second = sw.move_async(*some[1])
    assert first._completion.convoy is not second._completion.convoy
    device.finish(LANE, 1)
    assert first.done and not second.done


def test_a_busy_caller_clears_the_lane_first(device, monkeypatch):
    steps = []
    monkeypatch.setattr(
        cuda_straight, "order_after_caller", lambda on, index: steps.append((on.clear(), device.queued[LANE]))
    )
    some = pairs(2)
    first = sw.move_async(*some[0])
    device.queued[CALLER] = 1
    second = sw.move_async(*some[1])
    assert steps == [(lane().stream, 1)] and first._completion.convoy is not second._completion.convoy
    second.wait(), first.wait()


@pytest.mark.parametrize("call", ["copy", "event_record", "event_create"])
def test_a_refusal_before_the_handle_leaves_both_ends(device, monkeypatch, call):
    monkeypatch.setattr(cuda_lanes, "FULL", SIZE)
    some = pairs(2)
    device.refuse, device.refuse_at = 1, call
    with pytest.raises(RuntimeError, match="reason 1"):
        sw.move_async(*some[0])
    assert is_free(*some[0]) and some[0][1].version == 0
    assert device.done[LANE] == device.queued[LANE], "no copy is left under way"
    assert [read(h.wait())[0] for h in begin(some)] == [1, 2]


@pytest.mark.parametrize("call", ["event_record", "event_synchronize"])
def test_a_late_refusal_reaches_every_move_of_the_convoy(device, call):
    some = pairs(3)
    handles = begin(some)
    device.refuse, device.refuse_at = 1, call
    errors = []
    for handle in handles:
        with pytest.raises(RuntimeError, match="reason 1") as caught:
            handle.wait()
        errors.append(caught.value)
    assert len(set(map(id, errors))) == 1
    assert all(is_free(*pair) and pair[1].version == 0 for pair in some)
    assert [read(h.wait())[0] for h in begin(some)] == [1, 2, 3]


def test_a_blocking_move_that_fails_leaves_both_ends(device):
    ((tensor, target),) = pairs(1)
    for call in ("copy", "stream_synchronize"):
        device.refuse, device.refuse_at = 1, call
        with pytest.raises(RuntimeError, match="reason 1"):
            sw.move(tensor, target)
        assert is_free(tensor, target) and target.version == 0 and target.flat().any() == (call != "copy")


@pytest.mark.parametrize("act", [sw.move, lambda *a: sw.move_async(*a).wait()])
def test_every_fault_of_the_provider_leaves_both_ends(device, act):
    ((tensor, target),) = pairs(1)

    def as_before():
        assert is_free(tensor, target) and target.version == 0
        assert device.done[LANE] == device.queued[LANE]

    assert sweep(lambda: act(tensor, target), as_before) == 2
    assert target.version == 1


def test_an_interrupt_after_the_copy_was_queued_ends_the_move_once(device, monkeypatch):
    ((tensor, target),) = pairs(1)
    sw.move_async(tensor, target).wait()
    found = cuda_lanes.Lane.carry

    def interrupted(self, flight, nbytes):
        found(self, flight, nbytes)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cuda_lanes.Lane, "carry", interrupted)
        sw.move_async(tensor, target)
    deadline = time.monotonic() + 10
    while lane().reaper._watches and time.monotonic() < deadline:
        time.sleep(0.001)
    assert is_free(tensor, target) and target.version == 1


def test_a_failure_of_the_result_waits_for_the_copy(device, monkeypatch):
    ((tensor, target),) = pairs(1)

    def fails(tensor, carrier):
        raise Fault("no result")

    with pytest.raises(Fault):
        straight.move_straight(tensor, target, fails)
    assert device.done == device.queued and is_free(tensor, target) and target.version == 0
    with pytest.raises(Fault):
        straight.begin_straight(tensor, target, fails)
    assert device.done == device.queued and is_free(tensor, target)


def test_a_forked_child_neither_looks_nor_waits(device, monkeypatch):
    handle = begin(pairs(1))[0]
    monkeypatch.setattr(forks, "generation", forks.generation + 1)
    device.refuse = 1
    assert not handle.done
    with pytest.raises(sw.ForkedProcessError, match="spawn"):
        handle.wait()
    assert device.refuse == 1, "the driver was asked in the child"
    device.refuse = 0


def test_eight_threads_share_a_lane(device):
    """Each with carriers of its own, waiting, looking or dropping at random. Oracle: the bytes and versions."""
    failures = []

    def work(seed):
        rng = random.Random(seed)
        some = pairs(6)
        rounds = 40
        try:
            for _ in range(rounds):
                handles = begin(some)
                rng.shuffle(handles)
                for handle in handles:
                    if rng.random() < 0.3:
                        assert handle.done in (True, False)
                    if rng.random() < 0.2:
                        device.finish(LANE)
                    moved = handle.wait()
                    assert len(set(read(moved))) == 1
                for k, (tensor, target) in enumerate(some):
                    assert int(target.flat()[0]) == k + 1 and is_free(tensor, target)
                    target.flat().zero_()
            assert all(target.version == rounds for _, target in some)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(8)]
    [t.start() for t in threads]
    [t.join(60) for t in threads]
    assert not failures and not any(t.is_alive() for t in threads), failures
    assert isinstance(lane()._open, (convoy.Convoy, type(None))) and device.done[LANE] == device.queued[LANE]


def straight_result(tensor, carrier):
    return tensor


def test_pageable_memory_is_the_drivers_for_whoever_waits_only(device, monkeypatch):
    """Blocking and small: one call. Otherwise, or page-locked in parts, it takes the way through the buffers."""
    tensor, target = pairs(1)[0]
    tensor.carrier._pinned = False
    assert read(sw.move(tensor, target)) == [1] * SIZE
    up = cuda_straight.DeviceStraight("h2d")
    source = tensor.carrier
    with fail_at(1):
        assert not up.submit(tensor, source, target, 0, SIZE, straight_result, None)
        monkeypatch.setattr(cuda_straight, "LOOSE", SIZE - 1)
        assert up.perform(tensor, source, target, 0, SIZE, straight_result) is None
        monkeypatch.setattr(cuda_straight, "LOOSE", SIZE)
        source.pinning = object()
        assert up.perform(tensor, source, target, 0, SIZE, straight_result) is None
    source.pinning = None
