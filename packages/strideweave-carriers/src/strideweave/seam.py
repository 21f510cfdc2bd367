"""The provider seam: every allocation, transfer, file access and kernel passes ``enter`` first.

Tests install a hook there to make the n-th provider call fail or wait. One hook per process; installing one
is not meant for use beside other threads' tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Kind = Literal["allocate", "read", "write", "copy", "kernel", "submit"]

hook: Callable[[str], None] | None = None
"""What ``enter`` calls. Where a call of a function that does nothing is too much, look here whether there is any."""


def enter(kind: Kind) -> None:
    """Announce a provider call of ``kind``; raises what the installed hook raises."""
    now = hook
    if now is not None:
        now(kind)


def enter_each(kind: Kind, count: int) -> None:
    """``enter(kind)``, ``count`` times."""
    if hook is not None:
        for _ in range(count):
            enter(kind)


def install(new: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Make ``new`` the hook that ``enter`` calls; returns the one before it. None removes it."""
    global hook
    before, hook = hook, new
    return before
