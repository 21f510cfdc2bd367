"""``topologies=`` arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilefoundry.ir.types.shard import Topology

__all__ = ["checked_levels"]


def checked_levels(owner: str, topologies: Any) -> tuple[Topology, ...] | None:
    """``topologies`` as a tuple of levels; None stays None.

    Raises TypeError for what is no sequence of ``Topology``.
    """
    if topologies is None:
        return None
    given = (topologies,) if isinstance(topologies, Topology) else topologies
    if not isinstance(given, Sequence) or not all(isinstance(level, Topology) for level in given):
        raise TypeError(
            f'{owner}(topologies=...) takes a tuple such as (Topology("cta", 8),), got {topologies!r}'
        )
    return tuple(given)
