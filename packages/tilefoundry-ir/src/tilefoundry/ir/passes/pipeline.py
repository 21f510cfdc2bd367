"""Passes in order, with the program verified between them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tilefoundry.ir.core.module import Module
from tilefoundry.ir.errors import VerificationError
from tilefoundry.ir.passes.verify import verify_module

__all__ = ["Pass", "Pipeline"]


@runtime_checkable
class Pass(Protocol):
    """One rewriting of a module; a frozen dataclass whose class docstring states what holds before and after."""

    def run(self, module: Module) -> Module:
        """The rewritten module; the given one stays as it is."""
        ...


@dataclass(frozen=True, slots=True)
class Pipeline:
    """Passes run one after the other.

    The module is verified before the first pass and after each, so that a fault is reported beside the
    pass that made it.
    """

    passes: tuple[Pass, ...]

    def run(self, module: Module, after: Callable[[Pass, Module], None] | None = None) -> Module:
        """``module`` after every pass.

        Args:
            module: what the first pass takes.
            after: called with each pass and the verified module that it gave.

        Raises:
            VerificationError: the given module is invalid, or a pass left it so; the message names the pass.
        """
        verify_module(module)
        for one in self.passes:
            module = one.run(module)
            try:
                verify_module(module)
            except VerificationError as error:
                raise VerificationError(f"after {type(one).__name__}: {error}") from error
            if after is not None:
                after(one, module)
        return module
