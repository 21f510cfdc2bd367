"""CarrierDefinition: the execution and extension surface of a carrier class that composes others."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from .base import Carrier

Execute = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class CarrierDefinition:
    """What operations and facets a class offers beyond the plain carrier surface.

    ``storage`` is the class; ``kernels`` maps operation names to functions ``(operands, attributes) ->
    Tensor``; ``transfers`` lists the classes it moves to; ``composite`` runs an operation that ``kernels``
    lacks or is None; ``facets`` are extension classes with a ``name``. Immutable, and sealed at first use: a class's
    definition can be replaced until an operation or facet was looked up in it, never after.
    """

    storage: type[Carrier]
    kernels: Mapping[str, Execute] | None = None
    transfers: tuple[type[Carrier], ...] = ()
    composite: Execute | None = None
    facets: tuple[type, ...] = ()
    _frozen_kernels: Mapping[str, Execute] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.storage, type) or not issubclass(self.storage, Carrier):
            raise TypeError(f"CarrierDefinition: storage must be a carrier class, got {self.storage!r}")
        frozen = MappingProxyType(dict(self.kernels or {}))
        object.__setattr__(self, "_frozen_kernels", frozen)
        object.__setattr__(self, "kernels", frozen)
        object.__setattr__(self, "transfers", tuple(self.transfers))
        object.__setattr__(self, "facets", tuple(self.facets))

    def facet(self, cls: type) -> type | None:
        """``cls`` if the definition has that facet."""
        return cls if cls in self.facets else None


_definitions: dict[type, CarrierDefinition] = {}
_sealed: set[type] = set()
_lock = threading.Lock()


def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def install_definition(definition: CarrierDefinition) -> None:
    """Give ``definition.storage`` its definition.

    Raises:
        RuntimeError: the class's definition has been used already.
    """
    with _lock:
        if definition.storage in _sealed:
            raise RuntimeError(
                f"install_definition: the definition of {definition.storage.__name__} is sealed since its first use"
            )
        _definitions[definition.storage] = definition


def definition_of(cls: type) -> CarrierDefinition | None:
    """The definition of exactly ``cls``, sealed from now on, or None."""
    found = _definitions.get(cls)
    if found is not None:
        _sealed.add(cls)
    return found
