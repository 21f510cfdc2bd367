"""The machine that reads one statement-level function body."""

from __future__ import annotations

from dataclasses import dataclass, field

from tilefoundry.dsl.context import BodyContext
from tilefoundry.ir.core.kinds import ReduceKind

__all__ = ["PrimContext"]


@dataclass(slots=True)
class PrimContext(BodyContext):
    """State while one statement-level function is read.

    Attributes:
        written: names of the buffers that the body stores to.
        accumulators: name -> how it joins.
        prologues: names of the first indices of prologues that some operand is already.
        outputs: name of a launched function -> how many of its last buffers it writes.
        around: names that the blocks around the current one have bound.
    """

    written: set[str] = field(default_factory=set)
    accumulators: dict[str, ReduceKind] = field(default_factory=dict)
    prologues: set[str] = field(default_factory=set)
    outputs: dict[str, int] = field(default_factory=dict)
    around: frozenset[str] = frozenset()
