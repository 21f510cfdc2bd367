"""Core: the machine behind one tiled carrier. One lock guards table, pools and requests; nothing is called under it.

Bundled carriers share one lock, so that a set over several carriers commits as one. ``idle`` is a condition on that
lock.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ... import forks
from ...dtypes import DType
from ...errors import ForkedProcessError
from ..torch_storage import TorchStorage
from . import tensors
from .eviction import Eviction
from .geometry import TileGeometry
from .mover import Move
from .slots import Slab, Slot, SlotPool
from .stats import Recorder
from .table import Initial, TileRecord, TileTable

if TYPE_CHECKING:
    from .budget import DeviceBudget
    from .request import Request
    from .standing import Standing


STAGE, LITTLE = 64 << 20, 4 << 20
"""Bytes that pass primary at a time: at most, and however little primary may hold."""


class Core:
    """State of one carrier: geometry, tiers as slot pools, the table, requests that have not ended."""

    def __init__(
        self,
        geometry: TileGeometry,
        dtype: DType,
        primary: SlotPool,
        secondary: SlotPool,
        initial: Initial,
        home: Slab | None,
        *,
        primary_home: Slab | None = None,
        read_only: bool = False,
        lasting: bool = False,
        name: str = "TiledEvictable",
    ) -> None:
        self.geometry, self.dtype, self.name = geometry, dtype, name
        self.primary, self.secondary = primary, secondary
        self.home = home
        self.in_torch = isinstance(primary.prototype, TorchStorage)
        """Whether compact tensors lie in torch storage."""
        self.home_writable = home is not None and not read_only
        self.read_only = read_only
        self.lasting = lasting
        """Whether tiles will come and go many times, so that it pays to prepare their storage for it."""
        self.table = TileTable(geometry.tile_count, initial, primary_home if initial == "primary" else home)
        self.tile_bytes = geometry.tile_slots * dtype.itemsize
        self.lock = threading.Lock()
        self.idle = threading.Condition(self.lock)
        self.active: dict[Request, None] = {}
        self.deferred: dict[Eviction, None] = {}
        self._again: dict[int, bool] = {}
        """Threads that start deferred evictions, and whether some ended meanwhile."""
        self.stats = Recorder()
        self.mover: Any = tensors.mover_for(primary.prototype)
        self.budget: DeviceBudget | None = None
        self.bundled = False
        self.orphaned = False
        """Whether this is a forked child's copy of a core that cannot go on there."""
        self.peak_resident = self.table.resident_count()
        self.released = False
        self.held: Counter[int] = Counter()
        """How many holds keep a tile where it is."""
        self.standing: dict[int, Standing] = {}
        """Where selections lie that were found on primary as a whole, by the identity of their codes."""
        self.late: list[BaseException] = []
        """Failures of work whose result was handed out before it had run, and that nobody has been told of."""
        self.gathering = 0
        """Projections of such that have not ended."""
        forks.renew(self)

    def renew_in_child(self) -> None:
        """In a forked child: fresh locks, and no further use where work was under way or lies on a device."""
        half = forks.left_locked(self.lock)
        self.lock = forks.fresh_for(self.lock)
        self.idle = threading.Condition(self.lock)
        if self.budget is not None:
            self.budget.lock = self.lock
        self.stats.renew_in_child()
        self._again = {}
        if half or self.active or self.deferred or not self.primary.prototype.host:
            self.orphaned = True

    # --- under the lock ----------------------------------------------------------------------------------

    def room(self) -> int:
        """How many more tiles may be put on primary without replacing any."""
        room = self.primary.room()
        if self.budget is not None:
            room = min(room, self.budget.room() // self.tile_bytes)
        return max(0, room)

    def take_primary(self) -> Slot:
        """A slot on primary; there is one, the caller has looked."""
        if self.budget is not None:
            self.budget.used += self.tile_bytes
        return self.primary.take()

    def take_many(self, count: int) -> list[Slot]:
        """``take_primary``, several times."""
        if self.budget is not None:
            self.budget.used += self.tile_bytes * count
        return self.primary.take_many(count)

    def give_primary(self, slot: Slot) -> None:
        """Return a slot on primary."""
        if self.budget is not None:
            self.budget.used -= self.tile_bytes
        self.primary.give(slot)

    def give_secondary(self, slot: Slot) -> None:
        """Return a slot on secondary, unless it is the tile's own place in a supplied tier."""
        if slot.slab is not self.home:
            self.secondary.give(slot)

    def backup_slot(self, record: TileRecord) -> Slot:
        """Where a dirty tile is written back; the caller has seen to a free slot in the pool."""
        if self.home_writable:
            assert self.home is not None
            return Slot(self.home, record.code)
        return self.secondary.take()

    def can_store(self) -> bool:
        """Whether dirty tiles can be written back at all."""
        return self.home_writable or self.secondary.limit > 0

    def forget_standing(self) -> None:
        """Look again where selections lie."""
        for standing in self.standing.values():
            standing.drop()
        self.standing.clear()

    def placed(self, codes: Sequence[int], resident: bool) -> None:
        """Note a committed change of residency."""
        if codes:
            self.stats.placed(codes, resident)
            if resident:
                self.peak_resident = max(self.peak_resident, self.table.resident_count())

    def busy(self) -> list[str]:
        """What has not ended, in words."""
        return sorted({r.what for r in self.active} | {e.what for e in self.deferred})

    def staged_at_once(self) -> int:
        """How many tiles pass primary together through storage beside it: no more than primary may hold, or little."""
        bound = max(self.primary.limit * self.tile_bytes, LITTLE)
        return max(1, min(STAGE, bound) // self.tile_bytes)

    def slots_at_once(self) -> int:
        """How many elements of something else one step may put together beside this primary: a tile's, or little."""
        return max(self.geometry.tile_slots, LITTLE // self.dtype.itemsize)

    # --- without the lock --------------------------------------------------------------------------------

    def grow(self, primary: int, secondary: int) -> None:
        """Allocate what a reservation found missing; calls providers."""
        slots = self.geometry.tile_slots
        for pool, count in ((self.primary, primary), (self.secondary, secondary)):
            if count:
                # A tile per slab under a budget, so that what is free is given back to the device.
                slabs = pool.allocate(pool.growth(count), slots, self.mover.allocate)
                if self.lasting and pool is self.secondary:
                    for slab in slabs:
                        self.mover.keep(slab.carrier)
                with self.lock:
                    pool.add(slabs)

    def move(self, source: Slot, target: Slot) -> Move:
        """The move of one tile between slots."""
        size = self.tile_bytes
        return (source.slab.carrier, target.slab.carrier, source.place * size, target.place * size, size)

    def clear(self, slots: Iterable[Slot]) -> None:
        """Fill slots with zero; runs where the mover computes."""
        for slot in slots:
            tensors.tile_rows(slot.slab, self.geometry, self.dtype)[slot.place].zero_()

    def admit(self, request: Request) -> None:
        """Count a request as not ended; under the lock."""
        self.active[request] = None

    def retire(self, request: Request) -> None:
        """A request has ended."""
        with self.lock:
            self.active.pop(request, None)
            self.idle.notify_all()

    def poke(self) -> None:
        """Start deferred evictions that nothing stands in the way of any more.

        One that ends at once calls this again; then the outer call goes round once more, at the depth of one.
        """
        me = threading.get_ident()
        if me in self._again:
            self._again[me] = True
            return
        try:
            self._again[me] = bool(self.deferred)
            while self._again[me]:
                self._again[me] = False
                for eviction in tuple(self.deferred):
                    if not eviction.started:
                        eviction.try_start()
        finally:
            self._again.pop(me, None)

    def start_trailing(self, request: Request, codes: tuple[int, ...]) -> Callable[[], None]:
        """Enter the evictions that a policy wants after ``request``; the result starts them."""
        if not codes:
            return lambda: None
        # One per tile, so that a tile that stays in use does not hold up the others.
        for code in codes:
            Eviction.trailing(self, request.what, code)
        return lambda: self.poke()

    def require_own_process(self, verb: str) -> None:
        """Raise ForkedProcessError in a forked child that inherited unfinished work or a device."""
        if self.orphaned:
            raise ForkedProcessError(
                f"{verb}: this {self.name} was forked with work under way, or lies on a device; "
                "use it in the parent, or start workers with spawn"
            )

    def refuse_in_own_hold(self, verb: str, codes: Iterable[int] | None = None) -> None:
        """Raise RuntimeError where the calling thread holds tiles (of ``codes``, if given): it would wait forever."""
        me = threading.get_ident()
        with self.lock:
            holds = [request for request in self.active if request.holder == me]
            kept = {record.code for hold in holds for record in hold.pinned}
        if kept.intersection(codes) if codes is not None else holds:
            raise RuntimeError(
                f"{verb}: this thread holds tiles of the {self.name} and would wait for itself; "
                "leave the with block of the hold first"
            )

    def wait_idle(self) -> None:
        """Block until nothing is left to end, deferred evictions included."""
        self.require_own_process("wait_idle")
        self.refuse_in_own_hold("wait_idle")
        with self.lock:
            while self.active or self.deferred:
                self.idle.wait()

    def forget(self) -> None:
        """Drop every record and slab; the carrier was released."""
        with self.lock:
            if self.budget is not None:
                self.budget.dismiss(self)
            # Their stay has ended, as pictures show.
            self.placed(list(self.table.select(lambda record: record.primary is not None)), False)
            self.table = TileTable(self.geometry.tile_count, "invalid")
            self.home = None
            self.forget_standing()
            for pool in (self.primary, self.secondary):
                pool.slabs.clear()
                pool._free.clear()
