"""The provider seam: every allocation, transfer, file access and kernel passes ``enter`` first.

Tests install a hook there to make the n-th provider call fail or wait. One hook per process; installing one
is not meant for use beside other threads' tests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

Kind = Literal["allocate", "read", "write", "copy", "kernel", "submit"]

_hook: Callable[[str], None] | None = None


def enter(kind: Kind) -> None:
    """Announce a provider call of ``kind``; raises what the installed hook raises."""
    hook = _hook
    if hook is not None:
        hook(kind)


def install(hook: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Make ``hook`` the one that ``enter`` calls; returns the hook before it. None removes it."""
    global _hook
    before, _hook = _hook, hook
    return before
