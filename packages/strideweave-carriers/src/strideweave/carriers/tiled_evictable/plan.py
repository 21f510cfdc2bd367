"""ResidencyPlan and the ResidencyPolicy protocol: advice on which tiles to keep where."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from .tile_set import TileSet

Purpose = Literal["operation", "projection", "scatter", "backward"]
PURPOSES: tuple[Purpose, ...] = ("operation", "projection", "scatter", "backward")


@dataclass(frozen=True, slots=True)
class ResidencyPlan:
    """``promote`` before the request reads, ``retain`` until it ends, ``evict`` once it no longer needs them.

    Raises:
        TypeError: a field is neither a TileSet nor None.
        ValueError: a tile stands in two fields.
    """

    promote: TileSet = None  # type: ignore[assignment] # None becomes the empty set
    retain: TileSet = None  # type: ignore[assignment] # None becomes the empty set
    evict: TileSet = None  # type: ignore[assignment] # None becomes the empty set

    def __post_init__(self) -> None:
        for name in ("promote", "retain", "evict"):
            tiles = getattr(self, name)
            if tiles is None:
                object.__setattr__(self, name, TileSet())
            elif not isinstance(tiles, TileSet):
                raise TypeError(
                    f"ResidencyPlan {name}: expected a TileSet, got {type(tiles).__name__} {tiles!r}"
                )
        self._check_disjoint("promote", "retain")
        self._check_disjoint("promote", "evict")
        self._check_disjoint("retain", "evict")

    def _check_disjoint(self, one: str, other: str) -> None:
        both = set(getattr(self, one).coordinates) & set(getattr(self, other).coordinates)
        if both:
            raise ValueError(f"ResidencyPlan: tile {min(both)} stands in both {one} and {other}")


@runtime_checkable
class ResidencyPolicy(Protocol):
    """Anything with ``plan``. It is asked once per request, on the requesting thread, with no lock held."""

    def plan(self, required: TileSet, purpose: str) -> ResidencyPlan:
        """Advice for a request that reads or writes ``required``; ``purpose`` is one of ``PURPOSES``.

        Requests on the same carrier from within are refused.
        """
        ...
