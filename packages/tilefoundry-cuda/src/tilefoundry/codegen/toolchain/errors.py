"""What goes wrong outside of the program."""

from __future__ import annotations

from tilefoundry.ir.errors import TileFoundryError

__all__ = ["ToolchainError"]


class ToolchainError(TileFoundryError, RuntimeError):
    """A native tool is missing, too old, or failed; the message says what to install or shows its output."""
