"""How a refusal reaches its reader: by its message, without the frames of whatever pass found it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tilefoundry.ir.errors import LoweringError

__all__ = ["refusing_briefly"]

Result = TypeVar("Result")


def refusing_briefly(action: Callable[[], Result]) -> Result:
    """What ``action`` gives; a LoweringError of it is raised anew from here, and what led to it is left out.

    Such an error names a part of the program and a way out. Errors of other kinds keep their frames: those are for
    whoever works on the compiler.
    """
    try:
        return action()
    except LoweringError as error:
        raise error.with_traceback(None) from None
