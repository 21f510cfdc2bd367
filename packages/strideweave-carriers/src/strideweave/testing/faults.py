"""Faults and gates at the provider seam: the n-th provider call fails, or waits until it is let through."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from .. import seam


class Fault(OSError):
    """What a provider call raises when a test makes it fail."""


class _Counter:
    """Counts provider calls of some kinds and raises at one of them. Safe for calls from several threads."""

    def __init__(self, n: int, kinds: frozenset[str] | None, error: Callable[[], BaseException]) -> None:
        self._n, self._kinds, self._error = n, kinds, error
        self._lock = threading.Lock()
        self.calls = 0

    @property
    def fired(self) -> bool:
        """Whether the n-th call came."""
        return self.calls >= self._n

    def __call__(self, kind: str) -> None:
        if self._kinds is not None and kind not in self._kinds:
            return
        with self._lock:
            self.calls += 1
            hit = self.calls == self._n
        if hit:
            raise self._error()


@contextmanager
def fail_at(
    n: int, *kinds: str, error: Callable[[], BaseException] = lambda: Fault("injected fault")
) -> Iterator[_Counter]:
    """Within it the n-th provider call (of ``kinds``, default all), counted from 1, raises ``error()``."""
    counter = _Counter(n, frozenset(kinds) or None, error)
    before = seam.install(counter)
    try:
        yield counter
    finally:
        seam.install(before)


def sweep(attempt: Callable[[], object], verify: Callable[[], None], *kinds: str, limit: int = 200) -> int:
    """Fail the 1st, 2nd, ... provider call of ``attempt`` until a run has no n-th call; the number of faults.

    After each failed run ``verify`` must find the state as before. ``attempt`` must let the fault through.

    Raises:
        AssertionError: a run swallowed its fault, or ``limit`` runs were not enough.
    """
    for n in range(1, limit + 1):
        with fail_at(n, *kinds) as counter:
            try:
                attempt()
            except Fault:
                failed = True
            else:
                failed = False
        if not counter.fired:
            return n - 1
        assert failed, f"provider call {n} failed, but the attempt reported success"
        verify()
    raise AssertionError(f"still a {limit}-th provider call; raise the limit")


class Gate:
    """Holds provider calls of some kinds until ``open()``; ``reached`` tells that one is waiting."""

    def __init__(self, kinds: frozenset[str]) -> None:
        self._kinds = kinds
        self._open = threading.Event()
        self.reached = threading.Event()

    def __call__(self, kind: str) -> None:
        if kind in self._kinds and not self._open.is_set():
            self.reached.set()
            if not self._open.wait(60):
                raise Fault("a gate was not opened within a minute")

    def open(self) -> None:
        """Let everything through from now on."""
        self._open.set()


@contextmanager
def gated(*kinds: str) -> Iterator[Gate]:
    """Within it provider calls of ``kinds`` (default: copies) wait; leaving opens the gate."""
    gate = Gate(frozenset(kinds) or frozenset({"copy"}))
    before = seam.install(gate)
    try:
        yield gate
    finally:
        gate.open()
        seam.install(before)
