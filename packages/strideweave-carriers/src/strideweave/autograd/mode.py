"""Grad mode: whether operations of this thread record a graph. Each thread starts with it on."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ContextDecorator
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class _Mode(threading.local):
    enabled = True


_mode = _Mode()


def is_grad_enabled() -> bool:
    """Whether this thread records."""
    return _mode.enabled


def keeps_mode(function: Callable[P, R]) -> Callable[P, R]:
    """``function``, after which this thread records as it did before, and torch too, wherever an interrupt came."""

    @wraps(function)
    def kept(*args: P.args, **kwargs: P.kwargs) -> R:
        before, torch = _mode.enabled, sys.modules.get("torch")
        recorded = torch is not None and torch.is_grad_enabled()
        try:
            return function(*args, **kwargs)
        finally:
            # Not by the end of a with block: an interrupt at its first step would keep it from doing anything.
            _mode.enabled = before
            if recorded and not torch.is_grad_enabled():  # type: ignore[union-attr] # recorded says that it is there
                torch.set_grad_enabled(True)  # type: ignore[union-attr] # likewise

    return kept


class set_grad_enabled(ContextDecorator):
    """Turn recording on or off for this thread; as a context manager, until its end."""

    def __init__(self, enabled: bool) -> None:
        if not isinstance(enabled, bool):
            raise TypeError(f"set_grad_enabled: expected True or False, got {enabled!r}")
        self._before, self._enabled = _mode.enabled, enabled
        _mode.enabled = enabled

    def __enter__(self) -> set_grad_enabled:
        _mode.enabled = self._enabled
        return self

    def __exit__(self, *_: object) -> None:
        _mode.enabled = self._before


class no_grad(ContextDecorator):
    """Within it this thread records nothing, and tensors made there want no gradient."""

    _to = False

    def __enter__(self) -> None:
        self._before = _mode.enabled
        _mode.enabled = self._to

    def __exit__(self, *_: object) -> None:
        _mode.enabled = self._before

    def _recreate_cm(self) -> no_grad:
        # As a decorator each call needs its own memory of the mode before it.
        return type(self)()


class enable_grad(no_grad):
    """Within it this thread records."""

    _to = True
