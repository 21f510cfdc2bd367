"""Projections that bring their missing tiles with them where nothing is in the way: one load, then one gather.

The general way (``acquire`` and ``reserve``) asks of each tile what it must wait for, and gathers piece by piece. Here
one look under the lock finds that no tile must wait for anything but the load, and what it leaves behind is what the
general way would: a request that has pinned its tiles, a batch, and a projection, which go on like any other. Where
the look finds anything else nothing has changed, and the general way says what it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ... import seam
from ...tensor import Tensor, attach, made
from .awaiting import AwaitProjection
from .gather_node import gather_node
from .packing import Packing
from .projection import Projection
from .request import Request
from .reserve import choose_victims, new_batch
from .selection import TileSelection
from .slots import Slab
from .table import TileRecord

if TYPE_CHECKING:
    from .batch import Batch
    from .carrier import TiledEvictable
    from .core import Core


class Arrival:
    """One such projection from the moment its tiles are pinned: what its compact tensor is, and what comes of it."""

    __slots__ = ("_batch", "_carrier", "_held", "_ready", "request", "tensor", "work")

    def __init__(
        self, carrier: TiledEvictable, request: Request, batch: Batch, ready: list[TileRecord]
    ) -> None:
        self._carrier, self.request, self._batch, self._ready = carrier, request, batch, ready
        self.work: Projection | None = None
        self.tensor: Tensor | None = None
        # Of two threads that give the carrier back one finds it gone.
        self._held = [carrier]

    def begin(
        self, tensor: Tensor, selection: TileSelection, codes: tuple[int, ...], form: Packing, prepared: Any
    ) -> Projection:
        """Submit the load. What this raises means that nothing was submitted."""
        core, request = self.request.core, self.request
        prototype = core.primary.prototype
        seam.enter("allocate")
        target = type(prototype).filled(prototype._flat.new_empty(form.slots), core.dtype)  # type: ignore[attr-defined] # in torch storage
        self.tensor = attach(made(target, form.layout), gather_node(self._carrier, tensor, selection))
        work = self.work = Projection(core, request, codes, form, target, prepared)
        self._batch.start_straight()
        self._batch.arrived.add_callback(self.arrived)
        return work

    def arrived(self) -> None:
        """The batch has settled: gather everything at once, or leave the failure to the batch."""
        self.request.guarded(self._gather)

    def _gather(self) -> None:
        batch, work = self._batch, self.work
        if batch.arrived.error is None and work is not None:
            tiles = [(load.record.code, load.target) for load in batch.loads]
            # Those that were there are pinned, and are there still.
            tiles += [(r.code, r.primary) for r in self._ready if r.primary is not None]
            work.use(tiles, [])

    def publish(self) -> Tensor:
        """Let the compact tensor be used; the second call does nothing more."""
        self._let_go()
        return self.tensor  # type: ignore[return-value] # made before anybody has the handle

    def abandon(self) -> None:
        """Give everything back after a failure."""
        if self.work is not None:
            self.work.queue.close(self.request.error)
        self._let_go()

    def _let_go(self) -> None:
        try:
            held = self._held.pop()
        except IndexError:
            return
        held.drop_read()


def project_arriving(
    carrier: TiledEvictable, tensor: Tensor, selection: TileSelection, codes: tuple[int, ...], form: Packing
) -> AwaitProjection | None:
    """The projection into a fresh carrier; None, with nothing changed, where more is to be asked or done.

    Raises:
        RuntimeError: a graph is being captured, and not every tile is held.
    """
    import torch

    core = carrier._core
    slabs = core.primary.slabs
    if len(slabs) != 1 or not core.in_torch or core.budget is not None or core.deferred:
        return None
    if torch.is_inference_mode_enabled():
        return None
    prepared = core.mover.prepare_for(core, codes)
    with carrier._lock:
        if carrier._slot_busy or carrier._writers or carrier._released:
            return None
        carrier._readers.append(None)
    # Beside the submission there are two parts: the batch's, and the gather.
    request = Request(core, "project", parts=3)
    entered = _enter(core, request, codes, slabs[0])
    if entered is None:
        carrier.drop_read()
        return None
    arrival = Arrival(carrier, request, *entered)
    request.finish, request.abandon = arrival.publish, arrival.abandon
    try:
        work = arrival.begin(tensor, selection, codes, form, prepared)
    except BaseException as error:
        request.withdraw(error)
        raise
    try:
        core.mover.seal(prepared)
    except BaseException as error:
        request.end(error)
    else:
        request.end()
    return AwaitProjection(request, work.queue, arrival.publish)


def _enter(
    core: Core, request: Request, codes: tuple[int, ...], slab: Slab
) -> tuple[Batch, list[TileRecord]] | None:
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
            if slot is not None:
                if slot.slab is not slab:
                    return None
                ready.append(record)
                continue
            slot = record.secondary
            if slot is None or (origin is not None and slot.slab is not origin):
                return None
            origin = slot.slab
            missing.append(record)
        if not missing:
            return None
        request.pin(records)
        victims = _clean_victims(core, len(missing))
        if victims is None:
            request.let_go()
            return None
        for record in ready:
            core.table.touch(record)
        batch = new_batch(core, request, missing, victims)
        core.active[request] = None
    core.stats.required(len(ready), len(missing), codes)
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
