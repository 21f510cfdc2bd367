"""What is said of a placement that is not followed."""

from __future__ import annotations

from tilefoundry.ir.errors import LoweringError

__all__ = ["NotFollowed", "PlacementWarning"]


class NotFollowed(LoweringError):
    """A hand-placed program asks for something that has no lowering; the message names it and a way out."""


class PlacementWarning(UserWarning):
    """A detail of a program's placement is not kept; its values and its distribution are."""
