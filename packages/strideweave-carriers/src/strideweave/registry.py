"""Names to functions for what a Tensor's methods do. It lets ``tensor`` lie below the operations it offers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_functions: dict[str, Callable[..., Any]] = {}


def provide(name: str, function: Callable[..., Any]) -> None:
    """Say what ``name`` does."""
    _functions[name] = function


def call(name: str, *args: Any, **kwargs: Any) -> Any:
    """Do ``name``."""
    return _functions[name](*args, **kwargs)
