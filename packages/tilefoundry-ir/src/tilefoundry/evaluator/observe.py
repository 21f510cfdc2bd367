"""Record the function calls of an evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.hir.function import Function

__all__ = ["ObservedCall", "observed_calls", "record_call"]


@dataclass(frozen=True, slots=True)
class ObservedCall:
    """One call: the function, its arguments (weights included) and its value."""

    function: Function
    arguments: tuple[Any, ...]
    result: Any


_calls: ContextVar[list[ObservedCall] | None] = ContextVar("tilefoundry_observed_calls", default=None)


@contextmanager
def observed_calls() -> Iterator[list[ObservedCall]]:
    """Collect every call that evaluations in this context make, a callee before its caller.

    The list keeps all arguments and results alive. Other threads are not observed.
    """
    calls: list[ObservedCall] = []
    token = _calls.set(calls)
    try:
        yield calls
    finally:
        _calls.reset(token)


def record_call(function: Function, arguments: tuple[Any, ...], result: Any) -> None:
    """Add a finished call where somebody observes."""
    calls = _calls.get()
    if calls is not None:
        calls.append(ObservedCall(function, tuple(arguments), result))
