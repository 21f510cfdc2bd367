"""Compile lowered programs to native libraries. Back ends: ``cpu``; the verbs of ``tilefoundry`` reach them.

Names load on first use: importing the package loads neither a back end nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilefoundry.codegen.explanation import Explanation, KernelFacts, explain
    from tilefoundry.codegen.linkable import LinkableModule
    from tilefoundry.codegen.placing import place
    from tilefoundry.codegen.toolchain import ToolchainError

__all__ = ["Explanation", "KernelFacts", "LinkableModule", "ToolchainError", "explain", "place"]

_HOMES = {
    "Explanation": "explanation",
    "KernelFacts": "explanation",
    "explain": "explanation",
    "place": "placing",
    "LinkableModule": "linkable",
    "ToolchainError": "toolchain",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
