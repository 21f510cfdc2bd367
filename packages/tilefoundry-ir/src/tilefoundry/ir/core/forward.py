"""How a bare call of a node is carried out, on a Module, a reading of one, and a runtime twin alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MethodType
from typing import Any

__all__ = ["run_forward"]


def run_forward(
    node: Any,
    args: tuple[Any, ...],
    *,
    name: str,
    methods: Mapping[str, Callable[..., Any]],
    entry: Callable[..., Any] | None,
    callables: Callable[[], str],
) -> Any:
    """Run ``node``'s ``forward`` method if its class body defined one, else its entry.

    Args:
        node: what the method is bound to.
        args: the call's positional arguments.
        name: the node's name, for the message.
        methods: the orchestration methods of the semantic Module.
        entry: the entry as a callable on ``args``, or None.
        callables: says which functions and methods there are, for the message.

    Raises:
        TypeError: there is neither.
    """
    method = methods.get("forward")
    if method is not None:
        return MethodType(method, node)(*args)
    if entry is not None:
        return entry(*args)
    raise TypeError(f"{name} cannot be called as a whole; call one of its members instead ({callables()})")
