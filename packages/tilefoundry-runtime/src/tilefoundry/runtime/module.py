"""The runtime instance of a Module: same name, children and entry, with kernels for bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilefoundry.ir.core.module import Module
    from tilefoundry.ir.core.resource import RuntimeResource

__all__ = ["RuntimeModule"]


class RuntimeModule:
    """Base class: build the children in ``__init__``, write the step in ``forward``.

    Attributes:
        name: the Module's node name.
        entry: the Module's entry, or None.
        modules: the children; each is also an attribute under its name.
        module: the authored Module that this stands for; None where there is no single one.

    Life: construct (structure), ``load`` (weights), call. Threads: ``load`` and calls of one instance must not
    overlap; concurrent calls are as safe as the kernels are. Kernels run on the framework's current stream.
    """

    name: str
    entry: str | None
    modules: tuple[RuntimeModule, ...]
    module: Module | None = None

    def __init__(self, name: str, entry: str | None = None, modules: tuple[RuntimeModule, ...] = ()) -> None:
        self.name = name
        self.entry = entry
        self.modules = tuple(modules)
        for child in self.modules:
            if not isinstance(child, RuntimeModule):
                raise TypeError(f"{name}: a child is a RuntimeModule instance, got {child!r}")
            # No __getattr__ that looks children up: it would slow down every other attribute.
            if not hasattr(self, child.name):
                setattr(self, child.name, child)

    def forward(self, *args: Any) -> Any:
        """The step; a subclass writes it."""
        raise NotImplementedError(
            f"{type(self).__name__} {self.name!r} defines no forward; write one in the subclass"
        )

    def __call__(self, *args: Any) -> Any:
        """``forward(*args)``."""
        return self.forward(*args)

    def load(self, resource: RuntimeResource) -> None:
        """Let every child load from its part of ``resource``; a subclass with own weights extends this."""
        for child in self.modules:
            child.load(resource.subtree(child.name))

    def __repr__(self) -> str:
        children = ", ".join(child.name for child in self.modules) or "none"
        return f"{type(self).__name__}({self.name!r}; children: {children})"
