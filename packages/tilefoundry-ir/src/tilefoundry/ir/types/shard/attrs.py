"""What each mesh axis does to a tensor: splits it, holds copies, or holds partial values."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.core.kinds import ReduceKind, kind_from_name

__all__ = ["B", "Broadcast", "Dynamic", "P", "Partial", "S", "ShardAttr", "Split"]


@dataclass(frozen=True, slots=True)
class ShardAttr:
    """Base of the attributes; one per mesh axis."""


@dataclass(frozen=True, slots=True)
class Split(ShardAttr):
    """Instance i of the mesh axis holds index i of canonical axis ``axis``."""

    axis: int

    def __post_init__(self) -> None:
        if isinstance(self.axis, bool) or not isinstance(self.axis, int) or self.axis < 0:
            raise ValueError(f"S(axis): a canonical axis is an int of at least 0, got {self.axis!r}")

    def __str__(self) -> str:
        return f"S({self.axis})"


@dataclass(frozen=True, slots=True)
class Broadcast(ShardAttr):
    """Every instance of the mesh axis holds the same."""

    def __str__(self) -> str:
        return "B()"


@dataclass(frozen=True, slots=True)
class Partial(ShardAttr):
    """Every instance holds a summand: the value is the ``reduction`` over the mesh axis.

    Raises ValueError for a reduction that is none of the ``ReduceKind`` names.
    """

    reduction: str = "sum"

    def __post_init__(self) -> None:
        object.__setattr__(self, "reduction", kind_from_name(ReduceKind, self.reduction).value)

    def __str__(self) -> str:
        return f'P("{self.reduction}")'


@dataclass(frozen=True, slots=True)
class Dynamic(ShardAttr):
    """Known only from data at run time; must be resolved before anything projects the tensor."""

    def __str__(self) -> str:
        return "Dynamic()"


S = Split
B = Broadcast
P = Partial
