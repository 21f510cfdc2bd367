"""Kernels as parts of other kernels."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilefoundry.ir.core.expr import Var
from tilefoundry.ir.tir import PrimFunction

__all__ = ["ClusterMeeting", "JoinedWork", "parts_of"]


@dataclass(frozen=True, slots=True)
class JoinedWork:
    """What was a kernel of its own, as a part of another one.

    Attributes:
        kernel: with its own names.
        args: parameters of the whole in the order of the part's.
        blocks: that it takes; None where all there are share its elements.
    """

    kernel: PrimFunction
    args: tuple[Var, ...]
    blocks: int | None


@dataclass(frozen=True, slots=True)
class ClusterMeeting:
    """Blocks of the kernel, which are one cluster, wait for each other; what they wrote before is visible after."""


def parts_of(kernel: PrimFunction) -> Iterator[JoinedWork]:
    """The parts of a kernel that is several; none of any other."""
    body: Sequence[Any] = kernel.body
    return (part for part in body if isinstance(part, JoinedWork))
