"""Meshes: named axes over the instances of one or more program levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from tilefoundry.ir.errors import UnsupportedError
from tilefoundry.ir.types.dim import Dim
from tilefoundry.ir.types.shard.axis import MeshAxis
from tilefoundry.ir.types.shard.layout import Layout
from tilefoundry.ir.types.shard.topology import Topology, positive_extent
from tilefoundry.ir.types.written import as_entries

__all__ = ["Mesh", "make_mesh"]

_SEVERAL_DEVICES = frozenset({"gpu", "device", "node", "host", "rank"})
_TAKEN = frozenset({"at", "axis", "is_sliced", "layout", "level_names", "names", "rank", "resolved", "shape"})

Level = str | Topology
Window = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Mesh:
    """A box of instances with named axes, such as ``Mesh(("cta", "thread"), (2, 128), ("b", "t"))``.

    Axes belong to levels in contiguous groups, matched from the right. ``mesh.t`` is the axis called ``t``,
    and ``8 @ mesh.t`` splits an extent over it. Indexing with ints and ranges gives the sub-mesh of those
    instances; it keeps every axis, an int leaving an extent of 1.

    Args:
        topologies: the levels, outermost first, by name or as ``Topology``; one alone may stand bare.
        layout: extents of the axes, or a ``Layout`` whose strides number the instances; without strides the
            last axis is fastest.
        names: one name per axis.
        window: (start, stop) per axis of a sub-mesh; None for the whole mesh.

    Raises:
        TypeError, ValueError: axes, names and levels that do not fit together.
        UnsupportedError: a level that spans several GPUs.
    """

    topologies: tuple[Level, ...]
    layout: Layout
    names: tuple[str, ...] = ()
    window: Window | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "topologies", _levels(self.topologies))
        object.__setattr__(self, "layout", _settled(self.layout))
        names = (self.names,) if isinstance(self.names, str) else tuple(self.names)
        object.__setattr__(self, "names", names)
        _check_names(self)
        if len(self.topologies) > self.rank:
            raise ValueError(
                f"{self}: {len(self.topologies)} levels need at least as many axes, got {self.rank}"
            )
        if self.window is not None:
            object.__setattr__(self, "window", _checked_window(self))

    @property
    def level_names(self) -> tuple[str, ...]:
        """The levels' names, outermost first."""
        return tuple(level if isinstance(level, str) else level.name for level in self.topologies)

    @property
    def rank(self) -> int:
        """Number of axes."""
        return self.layout.rank

    @property
    def shape(self) -> tuple[Dim, ...]:
        """Extents of the axes; those of the window for a sub-mesh."""
        if self.window is None:
            return self.layout.shape
        return tuple(stop - start for start, stop in self.window)

    @property
    def is_sliced(self) -> bool:
        """True for a sub-mesh."""
        return self.window is not None

    def axis(self, name: str) -> MeshAxis:
        """The axis called ``name``; AttributeError listing the names there are otherwise."""
        if name not in self.names:
            raise AttributeError(
                f"the mesh has no axis {name!r}; its axes: {', '.join(self.names) or 'unnamed'}"
            )
        return MeshAxis(self, self.names.index(name))

    def at(self, position: int) -> MeshAxis:
        """The axis at ``position``."""
        return MeshAxis(self, range(self.rank)[position])

    def resolved(self, levels: Sequence[Topology]) -> Mesh:
        """The mesh with every level that is given by name replaced by the one of ``levels``.

        Raises KeyError naming a level that ``levels`` lacks, and the levels there are.
        """
        known = {level.name: level for level in levels}
        return replace(self, topologies=tuple(_resolve(level, known) for level in self.topologies))

    def __getattr__(self, name: str) -> MeshAxis:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.axis(name)

    def __getitem__(self, key: Any) -> Mesh:
        if self.window is not None:
            raise ValueError("a sub-mesh cannot be sliced again; slice the whole mesh once")
        keys = key if isinstance(key, tuple) else (key,)
        if len(keys) > self.rank:
            raise ValueError(f"{len(keys)} indices for a mesh of {self.rank} axes")
        keys = (*keys, *[slice(None)] * (self.rank - len(keys)))
        window = tuple(_range(axis, k, n) for axis, (k, n) in enumerate(zip(keys, self.shape, strict=True)))
        return replace(self, window=window)

    def __str__(self) -> str:
        axes = ", ".join(
            f"{n}={d}" for n, d in zip(self.names or range(self.rank), self.layout.shape, strict=True)
        )
        text = f"Mesh({', '.join(self.level_names)}: {axes})"
        return text if self.window is None else f"{text}[{', '.join(f'{a}:{b}' for a, b in self.window)}]"

    def script_text(self, name: Any, text: Any) -> str:
        """The mesh as Python text; a sub-mesh as the whole mesh and its slices."""
        dense = self.layout.strides == Layout(self.layout.shape).settled
        layout = text(self.layout.shape) if dense else text(self.layout)
        whole = f"{name('Mesh')}({text(self.topologies)}, {layout}, {text(self.names)})"
        if self.window is None:
            return whole
        return f"{whole}[{', '.join(f'{start}:{stop}' for start, stop in self.window)}]"


def make_mesh(
    levels: Topology | Sequence[Topology],
    shape: Sequence[Dim] | None = None,
    names: str | Sequence[str] | None = None,
) -> Mesh:
    """A mesh over ``levels``; without ``shape`` one axis per level, named after it. One level or name may stand bare.

    Raises:
        TypeError, ValueError: as ``Mesh``.
    """
    levels = (
        (levels,)
        if isinstance(levels, Topology)
        else as_entries("make_mesh: levels are Topology objects", levels)
    )
    extents = tuple(level.extent for level in levels) if shape is None else shape
    if names is None:
        names = tuple(level.name for level in levels) if shape is None else ()
    return Mesh(tuple(levels), _settled(extents), (names,) if isinstance(names, str) else tuple(names))


def _levels(given: Any) -> tuple[Level, ...]:
    levels = (given,) if isinstance(given, (str, Topology)) else tuple(given)
    if not levels:
        raise ValueError('a Mesh needs at least one level, such as ("cta",)')
    for level in levels:
        if not isinstance(level, (str, Topology)):
            raise TypeError(f"a Mesh's levels are names or Topology objects, got {level!r}")
    names = [level if isinstance(level, str) else level.name for level in levels]
    if len(set(names)) != len(names):
        raise ValueError(f"a Mesh names each level once, got {names}")
    several = sorted(_SEVERAL_DEVICES & set(names))
    if several:
        raise UnsupportedError(
            f"the level {several[0]!r} spans several GPUs; meshes over several GPUs are not supported yet: "
            "run one program per GPU, with meshes over cta and thread"
        )
    return levels


def _resolve(level: Level, known: dict[str, Topology]) -> Topology:
    if isinstance(level, Topology):
        return level
    if level not in known:
        raise KeyError(f"the mesh uses the level {level!r}; levels in force: {', '.join(known) or 'none'}")
    return known[level]


def _settled(given: Any) -> Layout:
    layout = (
        given
        if isinstance(given, Layout)
        else Layout(as_entries("a Mesh's axes are a tuple of extents", given))
    )
    if not layout.rank:
        raise ValueError("a Mesh needs at least one axis")
    extents = tuple(positive_extent("Mesh", extent) for extent in layout.shape)
    return Layout(extents, layout.settled)


def _check_names(mesh: Mesh) -> None:
    names = mesh.names
    if names and len(names) != mesh.rank:
        raise ValueError(f"a Mesh of {mesh.rank} axes needs {mesh.rank} names, got {names}")
    for name in names:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(f"an axis name must be an identifier, got {name!r}")
        if name in _TAKEN or name in {f.name for f in fields(mesh)}:
            raise ValueError(f"the axis name {name!r} is a member of Mesh itself; choose another")
    if len(set(names)) != len(names):
        raise ValueError(f"axis names must differ, got {names}")


def _checked_window(mesh: Mesh) -> Window:
    window = tuple(mesh.window or ())
    if len(window) != mesh.rank:
        raise ValueError(f"a window has one (start, stop) per axis, got {window} for {mesh.rank} axes")
    return tuple(
        _range(i, slice(*w), n) for i, (w, n) in enumerate(zip(window, mesh.layout.shape, strict=True))
    )


def _range(axis: int, key: Any, extent: Dim) -> tuple[int, int]:
    if not isinstance(extent, int):
        raise ValueError(
            f"mesh axis {axis} has the extent {extent}, unknown before launch, and cannot be sliced"
        )
    if isinstance(key, slice):
        if key.step not in (None, 1):
            raise ValueError(f"mesh axis {axis}: a slice takes every instance (step 1), got step {key.step}")
        start, stop, _ = key.indices(extent)
        inside = all(k is None or -extent <= k <= extent for k in (key.start, key.stop))
        if start < stop and inside:
            return start, stop
    elif hasattr(key, "__index__") and not isinstance(key, bool) and -extent <= key.__index__() < extent:
        start = key.__index__() % extent
        return start, start + 1
    shown = f"{key.start}:{key.stop}" if isinstance(key, slice) else repr(key)
    raise ValueError(f"mesh axis {axis}: {shown} selects no instance of 0:{extent}")
