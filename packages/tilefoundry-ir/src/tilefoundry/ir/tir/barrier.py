"""Which barrier makes the instances of a mesh wait for each other: the one place that decides it.

A target asks here and spells what it gets; it classifies nothing itself. For one mesh::

    from tilefoundry.ir.tir import classify_sync

    barrier = classify_sync(mesh, module.effective_topologies() or ())
    kind, base, count, mask, number = barrier.entry      # compile-time arguments of the runtime's ``ops::sync``

and for a whole function, whose named barriers need numbers of their own::

    for barrier in barriers(function, levels): ...       # one per ``sync``, in program order
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from tilefoundry.ir.errors import UnsupportedError, VerificationError
from tilefoundry.ir.tir.function import PrimFunction
from tilefoundry.ir.tir.stmt import Evaluate, walk_tir
from tilefoundry.ir.types.shard import Mesh, Topology, level_axes, participants

__all__ = ["Barrier", "BarrierKind", "barriers", "classify_sync"]

WARP = 32
NAMED_BARRIERS = 15


class BarrierKind(Enum):
    """The barriers that there are, widest first."""

    GRID = "grid"
    BLOCK = "block"
    NAMED = "named"
    WARP = "warp"
    LANES = "lanes"


@dataclass(frozen=True, slots=True)
class Barrier:
    """One barrier.

    Attributes:
        kind: GRID holds every thread of every CTA, BLOCK a whole block of several warps, NAMED an interval of whole
            warps, WARP a block of one warp, LANES some lanes of one warp.
        first, count: the threads that wait, as an interval of the block; for LANES the warp that holds them.
        mask: the lanes that wait, for WARP and LANES.
        number: the hardware's barrier (1 to 15) of a NAMED one, once ``barriers`` has numbered the sites.
    """

    kind: BarrierKind
    first: int = 0
    count: int = 0
    mask: int = 0
    number: int | None = None

    @property
    def entry(self) -> tuple[str, int, int, int, int]:
        """(kind, base, count, mask, number) as the runtime's ``ops::sync`` takes them.

        Raises:
            ValueError: a NAMED barrier that ``barriers`` has not numbered.
        """
        if self.kind is BarrierKind.NAMED:
            if self.number is None:
                raise ValueError(f"{self} has no number yet; take it from barriers(function, levels)")
            return ("named", self.first, self.count, 0, self.number)
        if self.kind is BarrierKind.LANES:
            return ("lanes", self.first, 0, self.mask, 0)
        return (_ENTRIES[self.kind], 0, 0, 0, 0)


_ENTRIES = {BarrierKind.GRID: "grid", BarrierKind.BLOCK: "cta", BarrierKind.WARP: "warp"}


def classify_sync(mesh: Mesh, levels: Sequence[Topology] = ()) -> Barrier:
    """The barrier for the instances that ``mesh``, or its window, takes in.

    Args:
        mesh: over ``cta``, ``thread`` or both.
        levels: the levels in force, for levels that the mesh gives by name.

    Raises:
        KeyError: a level that ``levels`` lacks.
        UnsupportedError: a set of instances that no barrier serves; the message says which sets one does.
    """
    resolved = mesh.resolved(levels)
    extents = {level.name: level.extent for level in resolved.topologies if isinstance(level, Topology)}
    foreign = [name for name in extents if name not in ("cta", "thread")]
    if foreign:
        raise _refused(mesh, f"the level {foreign[0]} has no barrier")
    if extents.get("cta", 1) != 1:
        return _grid(resolved, mesh, extents)
    if "thread" not in extents:
        return _block(mesh, levels)
    size = extents["thread"]
    if not isinstance(size, int):
        raise _refused(mesh, f"the block's extent {size} is not known before launch")
    return _threads(mesh, participants(resolved)["thread"], size)


def _grid(resolved: Mesh, mesh: Mesh, extents: Mapping[str, object]) -> Barrier:
    if resolved.window is not None:
        for part in level_axes(resolved):
            whole = all(
                resolved.window[axis] == (0, n) for axis, n in zip(part.axes, part.shape, strict=True)
            )
            if not whole:
                raise _refused(mesh, f"it takes some instances of {part.level.name} over several CTAs")
    return Barrier(BarrierKind.GRID)


def _block(mesh: Mesh, levels: Sequence[Topology]) -> Barrier:
    """A single CTA: its whole block, whatever the threads in force are."""
    for level in levels:
        if level.name == "thread" and isinstance(level.extent, int):
            return _threads(mesh, tuple(range(level.extent)), level.extent)
    raise _refused(mesh, "the threads of the block are not in force")


def _threads(mesh: Mesh, ids: tuple[int, ...], size: int) -> Barrier:
    first, count = ids[0], len(ids)
    if count == size > WARP:
        return Barrier(BarrierKind.BLOCK, 0, size)
    if first // WARP == ids[-1] // WARP:
        mask = sum(1 << (i % WARP) for i in ids)
        kind = BarrierKind.WARP if count == size else BarrierKind.LANES
        return Barrier(kind, first // WARP * WARP, count, mask)
    if ids == tuple(range(first, first + count)) and first % WARP == 0 and count % WARP == 0:
        return Barrier(BarrierKind.NAMED, first, count)
    raise _refused(mesh, f"threads {_shown(ids)} are neither inside one warp nor an interval of whole warps")


def _shown(ids: tuple[int, ...]) -> str:
    head = ", ".join(map(str, ids[:6]))
    return head if len(ids) <= 6 else f"{head}, ... {ids[-1]}"


def _refused(mesh: Mesh, why: str) -> UnsupportedError:
    return UnsupportedError(
        f"no barrier serves {mesh}: {why}; synchronise the whole cta mesh, the whole block, an interval of whole "
        "warps, or lanes of one warp"
    )


def barriers(function: PrimFunction, levels: Sequence[Topology] = ()) -> tuple[Barrier, ...]:
    """The barrier of every ``sync`` of ``function`` in program order; every NAMED site has a number of its own.

    Raises:
        UnsupportedError: as ``classify_sync``.
        VerificationError: more than 15 sites that need a named barrier.
    """
    sites = [s for s in walk_tir(function.body) if isinstance(s, Evaluate) and s.op == "sync"]
    found = [classify_sync(dict(site.attrs)["mesh"], levels) for site in sites]
    numbered: list[Barrier] = []
    used = 0
    for barrier in found:
        used += barrier.kind is BarrierKind.NAMED
        numbered.append(replace(barrier, number=used) if barrier.kind is BarrierKind.NAMED else barrier)
    if used > NAMED_BARRIERS:
        raise VerificationError(
            f"{function.name}: {used} syncs need a named barrier, a block has {NAMED_BARRIERS}; synchronise the "
            "whole block at some of them"
        )
    return tuple(numbered)
