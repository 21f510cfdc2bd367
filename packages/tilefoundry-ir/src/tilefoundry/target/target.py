"""The base of all targets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

__all__ = ["Target"]


@dataclass(frozen=True, slots=True)
class Target:
    """What a program is compiled for; equal targets share one native library.

    ``kind`` is the name under which a back end is found in the entry-point group ``tilefoundry.targets``.
    """

    kind: ClassVar[str] = ""

    def text(self) -> str:
        """The canonical spelling, part of every cache key."""
        raise NotImplementedError(f"{type(self).__name__} must spell itself in text()")

    def __str__(self) -> str:
        return self.text()
