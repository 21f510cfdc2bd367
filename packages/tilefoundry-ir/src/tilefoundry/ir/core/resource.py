"""What loading and preparing need of a checkpoint; implemented in ``tilefoundry.runtime.resource``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import torch

__all__ = ["RuntimeResource", "require_resource"]


@runtime_checkable
class RuntimeResource(Protocol):
    """Named tensors under one scope of a checkpoint.

    Implementations may also offer ``read_many(names) -> dict[str, Tensor]`` over dotted paths below the
    scope; a loader then asks once for a whole tree. One that reads a folder says so by ``folder`` (a path),
    so that ``prepare`` can refuse to write over it. Loaders call from one thread; whether several may read at
    once is each implementation's to say.
    """

    def load(self, name: str) -> torch.Tensor:
        """The tensor ``name``; KeyError where absent, TypeError where it names a group."""
        ...

    def load_group(self, name: str) -> tuple[torch.Tensor, ...] | None:
        """The tensors of a one-to-many name in declared order; None where ``name`` is one-to-one."""
        ...

    def subtree(self, seg: str) -> RuntimeResource:
        """The same checkpoint seen from one path segment further down."""
        ...


def require_resource(asker: str, resource: object) -> None:
    """Raise TypeError naming ``asker`` where ``resource`` is none."""
    if not isinstance(resource, RuntimeResource):
        raise TypeError(
            f"{asker} reads a resource, such as SafetensorsResource(folder) or DictResource(tensors) of "
            f"tilefoundry.runtime, got {type(resource).__name__}"
        )
