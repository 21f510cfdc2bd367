"""Which mesh axes belong to which program level, and which instances a mesh takes in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product as cartesian

from tilefoundry.ir.types.dim import Dim, product
from tilefoundry.ir.types.shard.mesh import Mesh
from tilefoundry.ir.types.shard.topology import Topology

__all__ = ["LevelAxes", "axis_groups", "level_axes", "local_index", "participants"]


def axis_groups(shape: Sequence[Dim], counts: Sequence[Dim]) -> tuple[tuple[int, ...], ...]:
    """The axes of each level, outermost level first.

    Levels are served right to left: each takes at least one trailing axis and stops at the first equality of
    its axes' product with its device count; the leftmost takes all that is left. A dynamic leftmost count is
    taken to fit where the product is dynamic too.

    Args:
        shape: extents of the mesh axes.
        counts: device counts of the levels.

    Raises:
        ValueError: no such split; the message names the level, its count and the axes tried.
    """
    groups: list[tuple[int, ...]] = []
    end = len(shape)
    for level in range(len(counts) - 1, 0, -1):
        first = end - 1
        while first > level and product(shape[first:end]) != counts[level]:
            first -= 1
        if first < level or product(shape[first:end]) != counts[level]:
            raise ValueError(_mismatch(shape, counts, level, shape[max(first, 0) : end]))
        groups.append(tuple(range(first, end)))
        end = first
    left = product(shape[:end])
    if end == 0 or (left != counts[0] and isinstance(left, int) and isinstance(counts[0], int)):
        raise ValueError(_mismatch(shape, counts, 0, shape[:end]))
    groups.append(tuple(range(end)))
    return tuple(reversed(groups))


def _mismatch(shape: Sequence[Dim], counts: Sequence[Dim], level: int, tried: Sequence[Dim]) -> str:
    extents = ", ".join(map(str, shape))
    return (
        f"mesh axes ({extents}) do not divide among levels of {', '.join(map(str, counts))} instances: "
        f"level {level} has {counts[level]}, its trailing axes give {product(tried)}; "
        "write axes whose products, from the right, are the levels' counts"
    )


@dataclass(frozen=True, slots=True)
class LevelAxes:
    """The part of a mesh that one level carries.

    Attributes:
        level: the level.
        axes: positions of its axes in the mesh.
        shape: their extents.
        strides: how its instance ids count along them, in the level's own numbering.
    """

    level: Topology
    axes: tuple[int, ...]
    shape: tuple[Dim, ...]
    strides: tuple[Dim, ...]

    def coordinate(self, instance: int) -> tuple[int, ...]:
        """Where the instance with this id sits along the level's axes."""
        return tuple(
            0 if extent == 1 else instance // step % extent  # type: ignore[operator]  # static by contract
            for extent, step in zip(self.shape, self.strides, strict=True)
        )


def level_axes(mesh: Mesh, levels: Sequence[Topology] = ()) -> tuple[LevelAxes, ...]:
    """The axes, extents and strides of each level of the whole ``mesh`` (a window is not looked at).

    Args:
        mesh: its levels are ``Topology`` objects, or names that ``levels`` resolves.
        levels: the levels in force.

    Raises:
        KeyError: a level that ``levels`` lacks.
        ValueError: axes that do not fit the levels, or strides that do not number a level's instances.
    """
    resolved = mesh.resolved(levels)
    tops = [level for level in resolved.topologies if isinstance(level, Topology)]
    groups = axis_groups(mesh.layout.shape, [level.extent for level in tops])
    return tuple(_level(mesh, level, axes) for level, axes in zip(tops, groups, strict=True))


def _level(mesh: Mesh, level: Topology, axes: tuple[int, ...]) -> LevelAxes:
    shape = tuple(mesh.layout.shape[axis] for axis in axes)
    strides = tuple(mesh.layout.settled[axis] for axis in axes)
    if not all(isinstance(dim, int) for dim in (*shape, *strides)):
        return LevelAxes(level, axes, shape, strides)
    moving = [step for n, step in zip(shape, strides, strict=True) if n != 1 and isinstance(step, int)]
    unit = min(moving, default=1)
    if not unit or any(step % unit for step in moving):
        raise ValueError(_not_a_numbering(mesh, level))
    own = tuple(0 if n == 1 else step // unit for n, step in zip(shape, strides, strict=True))
    below = 1
    for step, extent in sorted((step, n) for n, step in zip(shape, own, strict=True) if n != 1):
        if step != below:
            raise ValueError(_not_a_numbering(mesh, level))
        below *= extent
    return LevelAxes(level, axes, shape, own)


def _not_a_numbering(mesh: Mesh, level: Topology) -> str:
    return (
        f"{mesh}: the strides {mesh.layout.strides} do not number the {level.extent} instances of "
        f"{level.name} one by one; leave them out for last-axis-fastest"
    )


def local_index(mesh: Mesh, ids: dict[str, int], levels: Sequence[Topology] = ()) -> tuple[int, ...]:
    """The mesh coordinate of the instance whose id is ``ids[level name]`` on each level."""
    parts = level_axes(mesh, levels)
    return tuple(c for part in parts for c in part.coordinate(ids[part.level.name]))


def participants(mesh: Mesh, levels: Sequence[Topology] = ()) -> dict[str, tuple[int, ...]]:
    """Level name -> ids of the instances that the mesh, or its window, takes in, ascending.

    The participants are the product of the levels' ids. Raises ValueError for extents unknown before launch.
    """
    found: dict[str, tuple[int, ...]] = {}
    for part in level_axes(mesh, levels):
        ranges = []
        for axis, extent in zip(part.axes, part.shape, strict=True):
            if not isinstance(extent, int):
                raise ValueError(f"{mesh}: the instances of {part.level.name} are not known before launch")
            ranges.append(range(*mesh.window[axis]) if mesh.window is not None else range(extent))
        steps = [int(step) for step in part.strides]  # type: ignore[arg-type]  # static extents have static strides
        found[part.level.name] = tuple(
            sorted(sum(c * s for c, s in zip(at, steps, strict=True)) for at in cartesian(*ranges))
        )
    return found
