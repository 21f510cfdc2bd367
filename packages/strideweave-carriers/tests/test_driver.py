"""Calls of CUDA's driver. Oracle: a stand-in for the library that keeps what streams have done and events stand for."""

from __future__ import annotations

import ctypes
import sys
import threading
from pathlib import Path

import pytest
import torch

from strideweave.movement import cuda_lanes, driver
from strideweave.movement.completion import Completion
from strideweave.movement.cuda_lanes import Marks

sys.path.insert(0, str(Path(__file__).parent))
from fake_driver import Library, Stream


@pytest.fixture
def library(monkeypatch):
    found = Library()
    monkeypatch.setattr(driver, "_calls", lambda: found)
    monkeypatch.setattr(driver, "_bound", threading.local())
    return found


def copied(stream, text=b"carried"):
    source, target = ctypes.create_string_buffer(text), ctypes.create_string_buffer(len(text) + 1)
    driver.copy(ctypes.addressof(target), ctypes.addressof(source), len(text), stream)
    return target.value


def test_a_copy_is_queued_and_waited_for(library):
    stream = Stream()
    assert copied(stream) == b"carried"
    assert not driver.is_idle(stream)
    driver.synchronize(stream)
    assert driver.is_idle(stream)


def test_each_thread_is_bound_once(library):
    """A thread that never called the runtime has no context; one call per thread gives it one."""
    stream, seen = Stream(), []
    copied(stream), driver.synchronize(stream)

    def work():
        copied(stream), copied(stream)
        seen.append(threading.get_ident())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert stream.asked_by == [threading.get_ident(), seen[0]]


def test_refusals_say_why(library):
    stream = Stream()
    event = driver.Event(stream)
    for act in (
        lambda: copied(stream), lambda: driver.synchronize(stream), event.record, event.query,
        event.synchronize, lambda: event.wait(stream), lambda: driver.Event(stream),
    ):  # fmt: skip
        library.refuse = 1
        with pytest.raises(RuntimeError, match="reason 1"):
            act()
    library.refuse = 999
    with pytest.raises(RuntimeError, match="error 999"):
        copied(stream)
    assert not any(library.queued.values())


def test_an_event_stands_for_what_was_queued_before_it(library):
    stream = Stream()
    copied(stream)
    event = driver.Event(stream)
    event.record()
    copied(stream)
    assert not event.query()
    event.synchronize()
    assert event.query() and not driver.is_idle(stream)
    event.wait(stream)
    assert library.waited == [(7, 100, 0)]


def test_an_event_is_made_on_its_streams_device(library, monkeypatch):
    """Oracle: the device that is current when the driver is asked, on a thread whose own is another one."""
    current, made_on = [0], []

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            current.append(self.index)

        def __exit__(self, *_):
            current.pop()

    class Second(Stream):
        device_index = 1

    create = library.event_create
    library.event_create = lambda *args: made_on.append(current[-1]) or create(*args)
    monkeypatch.setattr(torch.cuda, "device", Device)
    driver.Event(Second())
    assert made_on == [1] and current == [0]


def test_the_default_stream_of_another_device_is_asked_on_that_device(library, monkeypatch):
    """Each device's default stream has handle 0. Oracle: the device that is current when the driver is called."""
    current, asked = [0], []

    class Device:
        def __init__(self, index):
            self.index = index

        def __enter__(self):
            current.append(self.index)

        def __exit__(self, *_):
            current.pop()

    class Default(Stream):
        cuda_stream = 0

        def __init__(self, index):
            super().__init__()
            self.device_index = index

    monkeypatch.setattr(torch.cuda, "device", Device)
    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[-1], raising=False)
    # Whatever this machine has.
    monkeypatch.setattr(driver, "alone", lambda: False)
    for name in ("copy", "stream_query", "stream_synchronize", "event_record", "wait_event"):
        found = getattr(library, name)
        monkeypatch.setattr(
            library, name, lambda *args, f=found, n=name: asked.append((n, current[-1])) or f(*args)
        )
    for index in (0, 1):
        stream, lane = Default(index), Stream()
        copied(stream), driver.is_idle(stream), driver.synchronize(stream)
        event = driver.Event(stream)
        event.record(), event.wait(stream), event.wait(lane)
        assert asked == [
            ("copy", index), ("stream_query", index), ("stream_synchronize", index), ("event_record", index),
            ("wait_event", index), ("wait_event", 0),
        ]  # fmt: skip
        asked.clear()
    assert current == [0]


def test_events_are_used_again_only_once_given_back(library):
    marks = Marks(Stream())
    first, second = marks.take(), marks.take()
    assert first is not second
    marks.give(first)
    assert marks.take() is first and marks.take() is not second
    assert len(library.events) == 3


def test_a_lane_gives_its_event_back_after_what_follows(library):
    """Oracle: the order of what happened, and how many events there are after many copies one after another."""
    lane = cuda_lanes.Lane.__new__(cuda_lanes.Lane)
    lane.stream, lane.device = Stream(), 0
    lane.marks, lane.reaper = Marks(lane.stream), Immediate()
    done = []
    for k in range(5):
        copied(lane.stream)
        completion: Completion[None] = Completion()
        lane.follow(completion, lambda error, k=k: done.append((k, error, len(lane.marks._free))))
        lane.reaper.run()
    assert done == [(k, None, 0) for k in range(5)]
    assert len(library.events) == 1


class Immediate:
    """A reaper that settles when told to."""

    def __init__(self):
        self.pending = []

    def add(self, watch):
        self.pending.append(watch)

    def run(self):
        for watch in self.pending:
            watch.event.synchronize()
            watch.settle(None)
        self.pending.clear()
