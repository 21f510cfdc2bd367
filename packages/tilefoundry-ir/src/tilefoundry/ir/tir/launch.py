"""Attributes of a kernel launch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilefoundry.ir.tir.tiles import MOST_CLUSTER

__all__ = ["LAUNCH_ATTRIBUTES", "checked_launch_attributes"]


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{name}= is True or False, got {value!r}")
    return value


def _cluster(name: str, value: Any) -> tuple[int, ...]:
    extents = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    total = 1
    for extent in extents:
        if isinstance(extent, bool) or not isinstance(extent, int) or extent < 1:
            raise TypeError(f"{name}= takes positive ints, got {value!r}")
        total *= extent
    if not 1 <= len(extents) <= 3 or total > MOST_CLUSTER:
        raise TypeError(f"{name}= takes 1 to 3 extents of at most {MOST_CLUSTER} CTAs in all, got {value!r}")
    return extents


LAUNCH_ATTRIBUTES: dict[str, Callable[[str, Any], Any]] = {
    "cooperative": _flag,
    "cluster": _cluster,
    "programmatic": _flag,
}
"""Attribute -> what checks its value: ``cooperative`` has all CTAs resident together, as a grid barrier needs;
``cluster`` gives the CTAs of one cluster; ``programmatic`` lets the kernel start while the one before it drains
(programmatic dependent launch): it reads nothing that the earlier one writes before that one is done."""


def checked_launch_attributes(
    given: Mapping[str, Any], grid: tuple[Any, ...] = ()
) -> tuple[tuple[str, Any], ...]:
    """``given`` in normal form, by name.

    Args:
        given: attribute -> value.
        grid: extents of the launch where they are known, which the cluster's divide.

    Raises:
        TypeError: an attribute that there is not, listing those there are, or a value it does not take.
    """
    checked = {}
    for name, value in given.items():
        if name not in LAUNCH_ATTRIBUTES:
            raise TypeError(f"no launch attribute {name}; there are {', '.join(LAUNCH_ATTRIBUTES)}")
        checked[name] = LAUNCH_ATTRIBUTES[name](name, value)
    for extent, part in zip(grid, checked.get("cluster", ()), strict=False):
        if isinstance(extent, int) and extent % part:
            raise TypeError(f"cluster={checked['cluster']} does not divide the grid {tuple(map(str, grid))}")
    return tuple(sorted(checked.items()))
