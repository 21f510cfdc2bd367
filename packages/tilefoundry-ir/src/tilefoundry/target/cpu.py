"""The host processor as a target."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from tilefoundry.target.target import Target

__all__ = ["CpuTarget"]


@dataclass(frozen=True, slots=True)
class CpuTarget(Target):
    """Plain C++17 for a CPU.

    Args:
        arch: what ``-march=`` gets, such as ``"x86-64-v3"``; ``"native"`` is resolved by the back end to what
            the running machine has, before any cache key is made.

    Raises:
        ValueError: ``arch`` is no architecture name.
    """

    kind: ClassVar[str] = "cpu"

    arch: str = "native"

    def __post_init__(self) -> None:
        if not isinstance(self.arch, str) or not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.+-]*", self.arch):
            raise ValueError(
                f'CpuTarget: arch {self.arch!r} is no architecture name; give one like "x86-64-v3"'
            )

    def text(self) -> str:
        """``CpuTarget("x86-64-v3")``."""
        return f'CpuTarget("{self.arch}")'
