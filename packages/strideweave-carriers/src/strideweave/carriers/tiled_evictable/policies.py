"""Policies that ship: least recently used, least frequently used with ageing, and a pinned set.

Each may serve several carriers of one grid; a lock of its own guards its counts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field

from ... import forks
from .plan import ResidencyPlan
from .tile_set import Coordinate, TileSet


def _check_count(count: object, who: str, unit: str) -> None:
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"{who}: must be an integer, got {count!r}")
    if count < 1:
        raise ValueError(f"{who}: {count} is below 1 {unit}")


@dataclass(slots=True, weakref_slot=True, eq=False)
class LRU:
    """Keeps the ``capacity`` tiles that were required last; the others are evicted after the request.

    Where one request needs more than ``capacity`` tiles, the last ones in its set stay.

    Raises:
        TypeError, ValueError: ``capacity`` is no positive integer.
    """

    capacity: int
    _used: OrderedDict[Coordinate, None] = field(default_factory=OrderedDict, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_count(self.capacity, "LRU capacity", "tile")
        forks.renew(self)

    def renew_in_child(self) -> None:
        """A fresh lock in a forked child."""
        self._lock = threading.Lock()

    def plan(self, required: TileSet, purpose: str) -> ResidencyPlan:
        """Evict what fell out. What is required comes onto primary where there is room, and demands none."""
        with self._lock:
            for tile in required:
                self._used.pop(tile, None)
                self._used[tile] = None
            dropped = [self._used.popitem(last=False)[0] for _ in range(len(self._used) - self.capacity)]
        return ResidencyPlan(evict=TileSet(dropped))


@dataclass(slots=True, weakref_slot=True, eq=False)
class LFU:
    """Keeps the ``capacity`` tiles that were required most often lately.

    Every ``period`` requests all counts are halved, so that tiles that were popular once make room.

    Raises:
        TypeError, ValueError: ``capacity`` or ``period`` is no positive integer.
    """

    capacity: int
    period: int = 64
    _counts: dict[Coordinate, float] = field(default_factory=dict, init=False, repr=False)
    _kept: set[Coordinate] = field(default_factory=set, init=False, repr=False)
    _requests: int = field(default=0, init=False, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        _check_count(self.capacity, "LFU capacity", "tile")
        _check_count(self.period, "LFU period", "request")
        forks.renew(self)

    def renew_in_child(self) -> None:
        """A fresh lock in a forked child."""
        self._lock = threading.Lock()

    def plan(self, required: TileSet, purpose: str) -> ResidencyPlan:
        """Evict what is no longer popular enough to stay. What is required comes onto primary where there is room."""
        now = set(required)
        with self._lock:
            self._count(required)
            candidates = self._kept | now
            # Ties go to what is required now, then to what is there.
            ranked = sorted(
                candidates,
                key=lambda t: (-self._counts.get(t, 0.0), t not in now, t not in self._kept, t),
            )
            stays = set(ranked[: self.capacity])
            dropped = candidates - stays
            self._kept = stays
        return ResidencyPlan(evict=TileSet(dropped))

    def _count(self, required: TileSet) -> None:
        self._requests += 1
        if self._requests % self.period == 0:
            self._counts = {t: c / 2 for t, c in self._counts.items() if c >= 0.25}
        for tile in required:
            self._counts[tile] = self._counts.get(tile, 0.0) + 1


@dataclass(frozen=True, slots=True)
class PinSet:
    """Keeps ``tiles`` on primary; every other tile leaves after the request that needed it.

    Raises:
        TypeError: ``tiles`` is no TileSet.
    """

    tiles: TileSet

    def __post_init__(self) -> None:
        if not isinstance(self.tiles, TileSet):
            raise TypeError(f"PinSet: expected a TileSet, got {type(self.tiles).__name__} {self.tiles!r}")

    def plan(self, required: TileSet, purpose: str) -> ResidencyPlan:
        """Promote the set; evict what is required beside it."""
        pinned = set(self.tiles)
        return ResidencyPlan(promote=self.tiles, evict=TileSet(t for t in required if t not in pinned))
