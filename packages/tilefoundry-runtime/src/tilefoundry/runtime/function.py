"""The body of one function of a twin."""

from __future__ import annotations

from typing import Any

from tilefoundry.runtime.abi import EntryABI

__all__ = ["RuntimeFunction"]


class RuntimeFunction:
    """Base class of function bodies: take what the body needs at construction, override ``__call__``.

    Args:
        type: the ABI that the body answers to, usually ``entry_abi_of(function)``.

    A body states its own thread and stream contract; work on a GPU belongs on the framework's current stream.
    """

    type: EntryABI

    def __init__(self, type: EntryABI) -> None:
        if not isinstance(type, EntryABI):
            raise TypeError(f"a RuntimeFunction's type is an EntryABI (entry_abi_of(function)), got {type!r}")
        self.type = type

    def __call__(self, *acts: Any) -> Any:
        """Compute the function's value on positional arguments; every usable body overrides this."""
        raise NotImplementedError(
            f"{self.__class__.__name__} has no body: override __call__({_names(self.type)})"
        )


def _names(type: EntryABI) -> str:
    return ", ".join(param.name for param in type.input_params)
