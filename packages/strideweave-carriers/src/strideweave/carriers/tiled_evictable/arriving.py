"""Projections that bring their missing tiles with them where nothing is in the way: one load, then one gather.

The general way (``acquire`` and ``reserve``) asks of each tile what it must wait for, and gathers piece by piece. Here
one look under the lock finds that no tile must wait for anything but the load, and what it leaves behind is what the
general way would: a request that has pinned its tiles, a batch, and a projection, which go on like any other. Where
the look finds anything else nothing has changed, and the general way says what it is.
"""

from __future__ import annotations

import _thread
from typing import TYPE_CHECKING, Any

from ...movement.interrupts import interrupts_deferred
from ...tensor import Tensor, attach, made
from .awaiting import AwaitProjection
from .gather_node import gather_node
from .packing import Packing
from .projection import Projection, Queue
from .request import Request
from .reserve import choose_victims, new_batch
from .selection import TileSelection
from .slots import Slab
from .table import TileRecord

if TYPE_CHECKING:
    from .batch import Batch
    from .carrier import TiledEvictable
    from .core import Core

    Entered = tuple[Batch, list[TileRecord]]


class Arrival(Request):
    """One such projection: the request itself, what its compact tensor is, and what comes of it."""

    what = "project"

    def __init__(self, carrier: TiledEvictable) -> None:
        # The batch's part, and the gather.
        self._start(carrier._core, parts=2)
        self.queue = Queue([])
        self.tensor: Tensor | None = None
        self._failure: BaseException | None = None
        self._making = _thread.allocate_lock()
        # Of two threads that give the carrier back one finds it gone.
        self._reading = [carrier]

    def load(self, entered: Entered, codes: tuple[int, ...], form: Packing, node: Any) -> None:
        """Submit the load. What this raises means that nothing was submitted."""
        self._batch, self._ready = batch, ready = entered
        self._codes, self._form, self._node = codes, form, node
        # Whoever waits makes room for the values while they are on their way.
        self.completion.assist(self)
        self.core.stats.arriving(len(ready), len(batch.loads), codes)
        batch.start_straight()
        batch.arrived.add_callback(self.arrived)

    def help(self) -> None:
        """Make the compact tensor, if nobody has; a failure is the request's, and comes when it gathers."""
        # An interrupt of whoever waits is no failure of the request, which others may wait for too.
        with interrupts_deferred(), self._making:
            if self.tensor is not None or self._failure is not None:
                return
            try:
                core = self.core
                target = core.mover.compact(core.primary.prototype, self._form.slots, core.dtype)
                self.tensor = attach(made(target, self._form.layout), self._node)
            except BaseException as error:
                self._failure = error

    def look(self) -> None:
        """There is nothing to settle."""

    def hurry(self) -> None:
        """Nor to hurry."""

    def arrived(self) -> None:
        """The batch has settled: gather everything at once, or leave the failure to the batch."""
        self.guarded(self._gather)

    def _gather(self) -> None:
        batch, core = self._batch, self.core
        if batch.arrived.error is not None:
            return
        self.help()
        if self._failure is not None or self.tensor is None:
            raise self._failure or AssertionError("no compact tensor was made")
        work = Projection(
            *(core, self, self._codes, self._form, self.tensor.carrier),
            *(core.mover.unordered(), self.queue),
        )
        tiles = [(record.code, target) for record, _, target in batch.loads]
        # Those that were there are pinned, and are there still.
        tiles += [(r.code, r.primary) for r in self._ready if r.primary is not None]
        work.use(tiles, [])

    def finish(self) -> Tensor:
        """See ``Request``."""
        return self.publish()

    def publish(self) -> Tensor:
        """Let the compact tensor be used; the second call does nothing more."""
        self._let_go()
        return self.tensor  # type: ignore[return-value] # made before anybody has the handle

    def lend(self) -> None:
        """Let the thread that has waited use the compact tensor on its stream."""
        self.core.mover.lend(self.publish().carrier)

    def abandon(self) -> None:
        """Give everything back after a failure."""
        self.queue.close(self.error)
        self._let_go()

    def _let_go(self) -> None:
        try:
            carrier = self._reading.pop()
        except IndexError:
            return
        carrier.drop_read()


def project_arriving(
    carrier: TiledEvictable, tensor: Tensor, selection: TileSelection, codes: tuple[int, ...], form: Packing
) -> AwaitProjection | None:
    """The projection into a fresh carrier; None, with nothing changed, where more is to be asked or done.

    The primary lies in torch storage, and the caller is not in inference mode. The room for the values is found while
    they are on their way: what the allocator refuses, ``wait()`` raises.
    """
    core = carrier._core
    slabs = core.primary.slabs
    if len(slabs) != 1 or core.budget is not None or core.deferred or core.mover.is_captured():
        return None
    with carrier._lock:
        if carrier._slot_busy or carrier._writers or carrier._released:
            return None
        carrier._readers.append(None)
    arrival = Arrival(carrier)
    entered = _enter(core, arrival, codes, slabs[0])
    if entered is None:
        carrier.drop_read()
        return None
    try:
        arrival.load(entered, codes, form, gather_node(carrier, tensor, selection))
    except BaseException as error:
        arrival.withdraw(error)
        raise
    return AwaitProjection(arrival, arrival.queue, arrival.publish, arrival.lend)


def _enter(core: Core, request: Request, codes: tuple[int, ...], slab: Slab) -> Entered | None:
    """Pin the tiles, count the request as begun, and enter the batch of those that are missing; and the others.

    None, with nothing changed, where a tile has no value, is claimed or moves, or room must be made by more than
    dropping clean tiles.
    """
    with core.lock:
        if core.released:
            return None
        records = core.table.many(codes)
        missing: list[TileRecord] = []
        ready: list[TileRecord] = []
        origin: Slab | None = None
        for record in records:
            if record.claim is not None or record.transit is not None or not record.valid:
                return None
            slot = record.primary
            if slot is None:
                slot = record.secondary
                if slot is None:
                    # A zero is no copy.
                    return None
                if slot[0] is not origin:
                    if origin is not None:
                        return None
                    origin = slot[0]
                missing.append(record)
            elif slot[0] is slab:
                ready.append(record)
            else:
                return None
        if not missing:
            return None
        request.pin_first(records)
        victims = _clean_victims(core, len(missing))
        if victims is None:
            request.let_go()
            return None
        for record in ready:
            core.table.touch(record)
        batch = new_batch(core, request, missing, victims)
        core.active[request] = None
    return batch, ready


def _clean_victims(core: Core, count: int) -> list[TileRecord] | None:
    """The clean tiles to drop so that ``count`` find a slot that exists; None where that takes more."""
    if core.primary.has(count):
        return []
    short = count - core.primary.room()
    victims = choose_victims(core, short) if short > 0 else []
    if len(victims) < short or core.primary.missing(count - len(victims)):
        return None
    for victim in victims:
        if victim.dirty:
            return None
    return victims
