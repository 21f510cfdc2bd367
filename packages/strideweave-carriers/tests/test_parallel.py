"""Copies by several threads: whoever is told that one has ended finds nobody writing any more."""

import _thread
import threading
import time

import pytest

from strideweave.movement import parallel
from strideweave.movement.completion import Completion
from strideweave.movement.pool import DEMAND, Pool, PoolStopped
from strideweave.movement.transfer import Submitted

NBYTES = 3 * parallel.PAGE


class Spans:
    """Stands in for ``hostmemory``: notes which spans began and ended; the second waits, the third may fail."""

    def __init__(self):
        self.began, self.ended, self.leave, self.failure = [], [], threading.Event(), None

    def copy(self, target, source, nbytes):
        assert (source, nbytes) == (target + 1, parallel.PAGE)
        span = target // parallel.PAGE
        self.began.append(span)
        if span == 1:
            assert self.leave.wait(30)
        if span == 2 and self.failure is not None:
            raise self.failure
        self.ended.append(span)


@pytest.fixture
def spans(monkeypatch):
    """Copies of three pages by the caller and two helpers."""
    helpers, spans = Pool(2), Spans()
    for name, value in (
        ("ALONE", 0),
        ("helper_count", lambda: 2),
        ("_pool", lambda: helpers),
        ("hostmemory", spans),
    ):
        monkeypatch.setattr(parallel, name, value)
    spans.helpers = helpers
    yield spans
    spans.leave.set()
    helpers.stop()


def begun(spans):
    """A copy on another thread, which waits for the second span alone; the thread and what the copy raised."""
    raised = []

    def work():
        try:
            parallel.copy(0, 1, NBYTES)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    limit = time.monotonic() + 10
    while len(spans.began) < 3 and time.monotonic() < limit:
        time.sleep(0.001)
    thread.join(0.05)
    return thread, raised


def test_every_span_is_copied(spans):
    spans.leave.set()
    parallel.copy(0, 1, NBYTES)
    assert sorted(spans.ended) == [0, 1, 2]


def test_a_failing_span_is_told_of_when_the_others_have_ended(spans):
    spans.failure = ValueError("no")
    thread, raised = begun(spans)
    assert thread.is_alive() and not raised
    spans.leave.set()
    thread.join(10)
    assert raised == [spans.failure] and sorted(spans.ended) == [0, 1]


def test_helpers_that_stop_meanwhile_are_waited_for(spans, monkeypatch):
    submit, calls = spans.helpers.submit, []

    def once(job):
        calls.append(None)
        if len(calls) == 2:
            spans.began.extend((0, 2))
            raise PoolStopped("exiting")
        return submit(job)

    monkeypatch.setattr(spans.helpers, "submit", once)
    thread, raised = begun(spans)
    assert thread.is_alive() and not raised
    spans.leave.set()
    thread.join(10)
    assert isinstance(raised[0], PoolStopped) and spans.ended == [1]


def test_an_interrupt_comes_when_all_have_ended(spans):
    threading.Timer(0.1, _thread.interrupt_main).start()
    threading.Timer(0.3, spans.leave.set).start()
    with pytest.raises(KeyboardInterrupt):
        parallel.copy(0, 1, NBYTES)
    assert sorted(spans.ended) == [0, 1, 2]


def test_an_interrupted_move_by_another_thread_ends_with_its_copy():
    """A transfer that always hands its work over: what raises has ended, so that room may be given back."""
    part, steps = Completion(), []

    class Elsewhere(Submitted):
        def submit(self, source, target, runs, priority=DEMAND):
            threading.Timer(0.1, _thread.interrupt_main).start()
            threading.Timer(0.3, lambda: (steps.append("ended"), part.resolve(None))).start()
            return part

    with pytest.raises(KeyboardInterrupt):
        Elsewhere().perform(None, None, ())
    assert steps == ["ended"] and part.done
