"""What goes wrong outside of the program."""

from __future__ import annotations

from tilefoundry.ir.errors import TileFoundryError

__all__ = ["GpuNotTargetedError", "ToolNotFoundError", "ToolTooOldError", "ToolchainError"]


class ToolchainError(TileFoundryError, RuntimeError):
    """A native tool is missing, too old, or failed; the message says what to install or shows its output."""


class ToolNotFoundError(ToolchainError):
    """A compiler, a library or headers are in none of the places where they are looked for."""


class ToolTooOldError(ToolchainError):
    """What was found is older than what generated code needs."""


class GpuNotTargetedError(ToolchainError):
    """The compiler of device code does not know this GPU's architecture."""
