"""DeviceBudget and Bundle: several carriers that share device bytes, and promote the same tiles as one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from heapq import merge
from typing import TYPE_CHECKING

from ...movement.completion import Completion, settled, when_all
from .awaiting import AwaitResidency
from .core import Core
from .selection import TileSelection, as_tile_set
from .table import TileRecord
from .transitions import evict, promote

if TYPE_CHECKING:
    from .carrier import TiledEvictable
    from .tile_set import TileSet


class DeviceBudget:
    """At most ``nbytes`` bytes of tiles on primary, over all carriers of all bundles that name it.

    Its carriers share one lock and allocate tile by tile, so that what one frees another can have.

    Raises:
        TypeError: ``nbytes`` is no integer.
        ValueError: below 1.
    """

    def __init__(self, nbytes: int) -> None:
        if isinstance(nbytes, bool) or not isinstance(nbytes, int):
            raise TypeError(f"DeviceBudget: expected a number of bytes, got {nbytes!r}")
        if nbytes < 1:
            raise ValueError(f"DeviceBudget: {nbytes} bytes; give at least one tile's")
        self.nbytes = nbytes
        self.used = 0
        self.lock = threading.Lock()
        self.cores: list[Core] = []
        """What shares the bytes; under the lock."""

    def room(self) -> int:
        """Bytes that are free; under the lock."""
        return self.nbytes - self.used

    def admit(self, cores: Sequence[Core]) -> None:
        """Take carriers in that are on no primary yet."""
        self.cores.extend(cores)

    def dismiss(self, core: Core) -> None:
        """Take back all that a carrier has, which is released; under the lock."""
        self.used -= core.primary.used * core.tile_bytes
        self.cores.remove(core)

    def victims(self, core: Core, tiles: int) -> list[tuple[Core, int]]:
        """Tiles of any member to evict, least recently used first, so that ``core`` can place ``tiles`` more.

        Empty where not enough can be had; under the lock.
        """
        wanted = tiles * core.tile_bytes - self.room() % core.tile_bytes
        chosen: list[tuple[Core, int]] = []
        for record, owner in merge(*(self._free(c) for c in self.cores), key=lambda item: item[0].stamp):
            if wanted <= 0:
                break
            chosen.append((owner, record.code))
            wanted -= owner.tile_bytes
        return chosen if wanted <= 0 else []

    def _free(self, core: Core) -> Iterable[tuple[TileRecord, Core]]:
        return (
            (r, core) for r in core.table.least_recent() if r.is_free() and (not r.dirty or core.can_store())
        )


class Bundle:
    """``Bundle([gate, up, down])``: carriers of one grid whose tiles belong together.

    A promotion of the bundle brings the tiles of every member onto primary, or none. With ``budget`` the members,
    and those of every other bundle with it, share its bytes; replaced tiles are the least recently used ones of
    any member. A carrier is in one bundle only.

    Raises:
        TypeError: a member is no TiledEvictable, or ``budget`` no DeviceBudget.
        ValueError: no member, one twice, different grids, or (with a budget) one that supplies its primary.
        RuntimeError: a member is released, busy, has tiles on primary, or is in a bundle already.
    """

    def __init__(self, carriers: Iterable[TiledEvictable], budget: DeviceBudget | None = None) -> None:
        if not isinstance(carriers, Iterable):
            raise TypeError(
                f"Bundle: expected TiledEvictable carriers, got {type(carriers).__name__}; pass a list of them"
            )
        members = tuple(carriers)
        _check_members(members, budget)
        self.carriers, self.budget = members, budget
        self._cores = [c._core for c in members]
        lock = threading.Lock() if budget is None else budget.lock
        for core in self._cores:
            _join(core, lock, budget)
        if budget is not None:
            budget.admit(self._cores)

    def promote_async(self, tiles: TileSet | TileSelection) -> AwaitResidency:
        """Begin to promote ``tiles`` of every member as one. Raises as ``TiledEvictable.promote_async``.

        Raises:
            ValueError: also for more bytes than the budget.
        """
        codes = self._codes(tiles, "promote")
        if not codes:
            return AwaitResidency(settled(None), self._cores[0])
        if self.budget is not None:
            need = len(codes) * sum(c.tile_bytes for c in self._cores)
            if need > self.budget.nbytes:
                raise ValueError(
                    f"promote: {need} bytes exceed the budget of {self.budget.nbytes}; ask for fewer tiles"
                )
        return AwaitResidency(promote([(c, codes) for c in self._cores]), self._cores[0])

    def promote(self, tiles: TileSet | TileSelection) -> None:
        """``promote_async(tiles).wait()``."""
        self.promote_async(tiles).wait()

    def evict_async(self, tiles: TileSet | TileSelection) -> AwaitResidency:
        """Begin to evict ``tiles`` of every member, or of none where one refuses; each member's set moves as one."""
        codes = self._codes(tiles, "evict")
        done: Completion[None] = Completion()
        parts = evict([(c, codes) for c in self._cores]) if codes else []
        for part in parts:
            done.assist(part)
        when_all(parts, lambda error: done.resolve(None) if error is None else done.reject(error))
        return AwaitResidency(done, self._cores[0])

    def evict(self, tiles: TileSet | TileSelection) -> None:
        """``evict_async(tiles).wait()``; RuntimeError where the calling thread itself holds one of the tiles."""
        codes = self._codes(tiles, "evict")
        for core in self._cores:
            core.refuse_in_own_hold("evict", codes)
        self.evict_async(tiles).wait()

    def _codes(self, tiles: object, verb: str) -> tuple[int, ...]:
        for carrier in self.carriers:
            carrier._ready(verb)
        return as_tile_set(tiles, verb).bind(self.carriers[0].geometry, verb)


def _check_members(members: tuple[TiledEvictable, ...], budget: DeviceBudget | None) -> None:
    from .carrier import TiledEvictable

    if budget is not None and not isinstance(budget, DeviceBudget):
        raise TypeError(f"Bundle budget: expected a DeviceBudget, got {type(budget).__name__}")
    for member in members:
        if not isinstance(member, TiledEvictable):
            raise TypeError(
                f"Bundle: expected TiledEvictable carriers, got {type(member).__name__}; of a tensor, pass its carrier"
            )
        member.require_live("Bundle")
    if not members or len(set(members)) != len(members):
        raise ValueError(f"Bundle: needs distinct carriers, got {len(members)}")
    grids = {m.grid_shape for m in members}
    if len(grids) > 1:
        raise ValueError(f"Bundle: members have the grids {sorted(grids)}; one set of tiles must fit all")
    for member in members:
        _check_member(member._core, budget)


def _check_member(core: Core, budget: DeviceBudget | None) -> None:
    if core.bundled:
        raise RuntimeError("Bundle: a carrier is in a bundle already; make one bundle of all its members")
    if core.active or core.deferred:
        raise RuntimeError(f"Bundle: incomplete {', '.join(core.busy())} on a member; call wait_idle() first")
    if budget is None:
        return
    if core.primary.prototype.size():
        raise ValueError(
            "Bundle: a member supplies its primary tier, so its bytes cannot be shared; supply the secondary"
        )
    if core.table.resident_count() or core.primary.slabs:
        raise RuntimeError(
            "Bundle: a member has storage on primary already; join the budget before the first request"
        )


def _join(core: Core, lock: threading.Lock, budget: DeviceBudget | None) -> None:
    core.lock, core.idle = lock, threading.Condition(lock)
    core.bundled = True
    if budget is not None:
        core.budget = budget
        core.primary.single = True
        core.primary.whole = False
