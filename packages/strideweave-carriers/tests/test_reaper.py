"""Watching events. Oracle: what a stand-in for an event allows, and which thread does what follows."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from strideweave.movement import captures, reaper
from strideweave.movement.completion import Completion


class Event:
    """Passes when told; counts who waits for it."""

    def __init__(self):
        self.passed, self.error = threading.Event(), None

    def query(self):
        if self.error:
            raise self.error
        return self.passed.is_set()

    def synchronize(self):
        assert self.passed.wait(10)
        if self.error:
            raise self.error


@pytest.fixture
def watching():
    made = reaper.Reaper("test")
    yield made
    made.stop()


def settled_by(completion):
    seen = []

    def settle(error):
        seen.append(threading.current_thread())
        completion.reject(error) if error else completion.resolve(None)

    return seen, settle


@pytest.mark.parametrize("lazy", [False, True])
def test_the_reaper_settles_what_nobody_waits_for(watching, lazy):
    for _ in range(3):
        event, done = Event(), Completion()
        seen, settle = settled_by(done)
        watching.watch(event, settle, lazy)
        time.sleep(0.01)
        assert not done.done
        event.passed.set()
        deadline = time.monotonic() + 10
        while not done.done and time.monotonic() < deadline:
            time.sleep(0.001)
        assert [t.name for t in seen] == ["test"]


def test_a_waiting_thread_does_what_follows_itself(watching):
    event, done = Event(), Completion()
    seen, settle = settled_by(done)
    done.assist(watching.watch(event, settle))
    threading.Timer(0.05, event.passed.set).start()
    done.result()
    assert seen == [threading.current_thread()]


def test_many_waiting_threads_settle_once(watching):
    event, done = Event(), Completion()
    seen, settle = settled_by(done)
    done.assist(watching.watch(event, settle))
    threads = [threading.Thread(target=done.result) for _ in range(8)]
    [t.start() for t in threads]
    event.passed.set()
    [t.join(10) for t in threads]
    assert done.done and len(seen) == 1


def test_looking_settles_without_waiting(watching):
    event, done = Event(), Completion()
    block = Event()
    watching.watch(block, lambda error: None)
    _, settle = settled_by(done)
    done.assist(watching.watch(event, settle, True))
    done.look()
    assert not done.done
    event.passed.set()
    done.look()
    assert done.done
    block.passed.set()


def test_a_device_error_reaches_whoever_waits(watching):
    event, done = Event(), Completion()
    event.error = RuntimeError("device")
    _, settle = settled_by(done)
    done.assist(watching.watch(event, settle))
    event.passed.set()
    with pytest.raises(RuntimeError, match="device"):
        done.result()


def test_an_interrupt_waits_until_what_follows_is_done(watching):
    event, steps = Event(), []
    event.passed.set()

    def settle(error):
        steps.append("begun")
        signal.raise_signal(signal.SIGINT)
        steps.append("done")

    watch = reaper.Watch(watching, event, settle, False)
    # A process that a shell started in the background ignores the signal.
    found = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            watch.help()
        assert steps == ["begun", "done"]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, found)


def test_an_ignored_interrupt_stays_ignored(watching):
    event, steps = Event(), []
    event.passed.set()

    def settle(error):
        signal.raise_signal(signal.SIGINT)
        steps.append("done")

    watch = reaper.Watch(watching, event, settle, False)
    found = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        watch.help()
        assert steps == ["done"] and signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, found)


def test_stopping_settles_everything():
    made, order = reaper.Reaper("stopped"), []
    events = [Event() for _ in range(3)]
    for k, event in enumerate(events):
        made.watch(event, lambda error, k=k: order.append(k), k == 1)
        event.passed.set()
    made.stop()
    assert order == [0, 1, 2]


def test_without_a_driver_there_is_no_capture_to_disturb(monkeypatch):
    monkeypatch.setattr(captures, "_exchange", lambda: captures._no_driver)
    monkeypatch.setattr(captures, "_cell", captures._Cell())
    with captures.beside_captures():
        pass
