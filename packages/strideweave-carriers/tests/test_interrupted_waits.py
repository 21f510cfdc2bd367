"""Ctrl-C at every step of handing work over and of waiting for it. Oracle: afterwards the same goes through at once."""

from __future__ import annotations

import signal
import sys

import pytest

import strideweave as sw
from strideweave.autograd.mode import no_grad
from strideweave.carriers.tiled_evictable.tile_reader import settle
from strideweave.movement.completion import Completion, settled, when_all
from strideweave.movement.pool import Pool


@pytest.fixture
def pool():
    pool = Pool(2)
    yield pool
    pool.stop()


@pytest.fixture(autouse=True)
def signals():
    """A wait that does not end is a TimeoutError."""

    def late(*_):
        raise TimeoutError("a wait did not end")

    before = signal.signal(signal.SIGINT, signal.default_int_handler), signal.signal(signal.SIGALRM, late)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGINT, before[0])
    signal.signal(signal.SIGALRM, before[1])


def interrupted(n, act):
    """Whether ``act`` has an n-th step (a call or return of Python code), at which it was interrupted."""
    count = 0

    def trace(frame, event, arg):
        # Between lines an interrupt may be told of here, but never comes: a lock may just have been taken.
        nonlocal count
        count += event in ("call", "return")
        if count == n and event in ("call", "return"):
            signal.raise_signal(signal.SIGINT)
        return trace

    outer = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(outer)
    return count >= n


def at_every_step(act, check):
    n = 0
    while True:
        n += 1
        signal.setitimer(signal.ITIMER_REAL, 10)
        if not interrupted(n, act):
            signal.setitimer(signal.ITIMER_REAL, 0)
            return n - 1
        check()


def test_of_handing_over(pool):
    def check():
        assert pool.submit(lambda: None).result() is None

    assert at_every_step(lambda: pool.submit(lambda: None), check) > 20


@pytest.mark.parametrize("count", [1, 3])
def test_of_a_wait_for_what_has_settled(count):
    parts = [settled(None) for _ in range(count)]
    assert at_every_step(lambda: settle(parts), lambda: settle(parts)) > 5


def test_of_a_wait_for_what_is_under_way(pool):
    def act():
        settle([pool.submit(lambda: None) for _ in range(3)])

    assert at_every_step(act, act) > 50


def test_what_follows_is_done_as_a_whole():
    """A callback of what has settled already either does not begin, or ends."""
    part = settled(None)
    begun, followed = [], []

    def act():
        followed.append(Completion())

        def follow(error):
            begun.append(followed[-1])
            followed[-1].resolve(None)

        when_all([part], follow)

    assert at_every_step(act, lambda: None) > 10
    assert len(begun) > 5 and all(one.done for one in begun)


def test_a_backward_that_is_interrupted_leaves_recording_on(monkeypatch):
    """Also where the interrupt comes as the block that had turned it off ends, before that has done anything."""

    def too_late(*_):
        raise KeyboardInterrupt

    x = sw.ones((2,))
    root = sw.mul(x, x)
    monkeypatch.setattr(no_grad, "__exit__", too_late)
    for act in (lambda: root.backward(sw.ones((2,)), True), lambda: sw.grad(root, x, sw.ones((2,)))):
        with pytest.raises(KeyboardInterrupt):
            act()
        assert sw.is_grad_enabled()


def test_a_failure_is_raised_once_all_have_settled(pool):
    first, second, third = Completion(), Completion(), Completion()
    wrong = OSError("first"), OSError("second")
    second.reject(wrong[1])
    pool.submit(lambda: (first.reject(wrong[0]), third.resolve(None)))
    with pytest.raises(OSError) as caught:
        settle([first, second, third])
    assert caught.value is wrong[0] and third.done
