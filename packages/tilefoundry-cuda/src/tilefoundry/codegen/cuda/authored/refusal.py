"""What is said of a placement that is not followed."""

from __future__ import annotations

import sys
import warnings
from typing import Any

from tilefoundry.ir.errors import LoweringError

__all__ = ["NotFollowed", "PlacementWarning", "warn_placement"]

_shown: dict[Any, Any] = {}
"""What the warnings module keeps, so that one line of a program is named once where its filters say so."""


class NotFollowed(LoweringError):
    """A hand-placed program asks for something that has no lowering; the message names it and a way out."""


class PlacementWarning(UserWarning):
    """A detail of a program's placement is not kept; its values and its distribution are."""


def warn_placement(message: str, place: tuple[str, int] | None = None) -> None:
    """Give a PlacementWarning that points at ``place``, a file and a line of the program.

    Without one it points at the call from outside of the compiler, such as ``tilefoundry.compile(...)``.
    """
    warnings.warn_explicit(message, PlacementWarning, *(place or _caller()), registry=_shown)


def _caller() -> tuple[str, int]:
    """File and line of the nearest frame that is not the compiler's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "tilefoundry":
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno
