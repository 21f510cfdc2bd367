"""Program levels: how many instances of a program run, and on what."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.ir.types.dim import Dim, DimExpr, DimVar, bounds

__all__ = ["PERSISTENT", "Topology", "persistent"]

PERSISTENT = DimVar("persistent")
"""The extent of a level that the launch fills with as many instances as the device holds at once."""

persistent = PERSISTENT
"""``PERSISTENT`` as programs spell it: ``Topology("cta", persistent)``."""


@dataclass(frozen=True, slots=True)
class Topology:
    """One level of the execution hierarchy, such as ``Topology("thread", 128)``.

    Args:
        name: the level's name; ``cta`` and ``thread`` are the levels of a GPU kernel.
        extent: how many instances there are: a positive int, a dim expression, or ``persistent``.

    Raises:
        TypeError, ValueError: a name that is no identifier, an extent that cannot be a positive count.
    """

    name: str
    extent: Dim

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name.isidentifier():
            raise ValueError(f"a topology's name must be an identifier, got {self.name!r}")
        if self.extent == "persistent":
            object.__setattr__(self, "extent", PERSISTENT)
        object.__setattr__(self, "extent", positive_extent(f"topology {self.name}", self.extent))

    @property
    def is_static(self) -> bool:
        """True where the extent is an integer."""
        return isinstance(self.extent, int)

    def __str__(self) -> str:
        return f"{self.name}({self.extent})"


def positive_extent(subject: str, extent: object) -> Dim:
    """``extent`` where it can be a count of at least one.

    Raises:
        TypeError: neither an int nor a dim; ValueError: below 1 for every value of its variables.
    """
    if isinstance(extent, (DimVar, DimExpr)):
        if bounds(extent)[1] < 1:
            raise ValueError(f"{subject}: the extent {extent} is below 1 for every value of its variables")
        return extent
    if isinstance(extent, bool) or not hasattr(extent, "__index__"):
        raise TypeError(f"{subject}: an extent is a positive int or a dim, got {extent!r}")
    value = extent.__index__()  # type: ignore[attr-defined]  # checked on the line above
    if value < 1:
        raise ValueError(f"{subject}: an extent must be at least 1, got {value}")
    return value
