"""Scatter: compact values into a fresh tiled carrier; what does not fit on its primary is spilled to its secondary."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..torch_storage import plain_torch
from .acquire import acquire
from .core import Core
from .gather import spread
from .mover import Move
from .packing import Packing
from .request import Request
from .slots import Slab, Slot
from .tensors import tile_rows

if TYPE_CHECKING:
    import torch

Values = Callable[[], "torch.Tensor"]


class Scatter:
    """The copying part of a scatter of ``codes`` (compact order) into ``target``, a core nobody else knows yet.

    ``values`` gives the compact tensor, flat and dense, where the mover computes. With ``base`` its tiles are added
    to ``base``'s, which the request has pinned.
    """

    def __init__(
        self,
        request: Request,
        target: Core,
        codes: Sequence[int],
        packing: Packing,
        values: Values,
        base: Core | None = None,
    ) -> None:
        self.request, self.target, self.codes = request, target, codes
        self.packing, self.values, self.base = packing, values, base
        self.position = {code: k for k, code in enumerate(codes)}
        self._placed: list[tuple[int, Slot]] = []
        self._spilled: list[tuple[int, Slot]] = []
        self.prepared = target.mover.prepare()

    def run(self, promote: Sequence[int], owner: Core) -> None:
        """Allocate, then submit everything. ``owner`` is the template's core, for what its policy promotes."""
        self._allocate()
        if promote:
            # All that the request has pinned, so that tiles it only covers give way to those that are promoted.
            covered = tuple(dict.fromkeys((*self.codes, *promote)))
            acquire(owner, self.request, covered, set(promote), lambda ready, direct: None, cache=False)
        self._group(self._placed, None)
        self.target.mover.seal(self.prepared)
        if self._spilled:
            per = self.target.staged_at_once()
            self._spill([self._spilled[k : k + per] for k in range(0, len(self._spilled), per)])

    def _allocate(self) -> None:
        target = self.target
        room = min(len(self.codes), target.primary.limit)
        rest = len(self.codes) - room
        target.grow(target.primary.missing(room), target.secondary.missing(rest))
        with target.lock:
            self._placed = [(k, target.take_primary()) for k in range(room)]
            self._spilled = [(k, target.secondary.take()) for k in range(room, len(self.codes))]

    # --- one group of tiles ------------------------------------------------------------------------------

    def _group(self, tiles: list[tuple[int, Slot]], then: Callable[[], None] | None) -> None:
        """Fill ``tiles``, then call ``then``; counted on the request."""
        if self.base is None:
            self._write(tiles, (), then)
            return
        slots = dict(tiles)
        held: list[int] = []
        base = self.base

        def have(ready: list[tuple[int, Slot]], direct: list[tuple[int, Slot | None]]) -> None:
            sources = [(self.position[c], s) for c, s in (*ready, *direct) if s is not None]
            base.stats.add(bytes_streamed=base.tile_bytes * (len(sources) - len(ready)))
            moves = [base_move(base, s, self.target, slots[k]) for k, s in sources]

            def copied(error: BaseException | None) -> None:
                if error is not None:
                    self.request.end(error)
                    return
                with self.request._guard:
                    held.extend(k for k, _ in sources)
                    held.extend(-1 for c, s in direct if s is None)
                    complete = len(held) == len(tiles)
                self.request.guarded(lambda: self._write(tiles, held, then) if complete else None)

            self.request.begin()
            self.request.follow(self._copy(moves), copied)

        codes = [self.codes[k] for k, _ in tiles]
        acquire(base, self.request, codes, (), have, cache=False)

    def _copy(self, moves: Sequence[Move]):
        self.request.submitted = True
        return self.target.mover.guarded_copy(moves)

    def _write(
        self, tiles: list[tuple[int, Slot]], added: Sequence[int], then: Callable[[], None] | None
    ) -> None:
        onto = set(added)

        def job() -> None:
            values = self.values()
            spread(self.target, values, self.packing, [t for t in tiles if t[0] not in onto])
            if onto:
                sum_into(self.target, values, self.packing, [t for t in tiles if t[0] in onto])

        def ended(error: BaseException | None) -> None:
            if error is not None or then is None:
                self.request.end(error)
            else:
                self.request.guarded(then)

        self.request.begin()
        try:
            self.target.mover.gather(job, self.prepared, ended, self.request.completion)
        except BaseException as error:
            if not self.request.submitted:
                self.request.unbegin()
                raise
            self.request.end(error)
            return
        self.request.submitted = True

    # --- spilling ----------------------------------------------------------------------------------------

    def _spill(self, groups: list[list[tuple[int, Slot]]]) -> None:
        target, group = self.target, groups[0]
        staged = Slab(
            target.mover.allocate(target.primary.prototype, len(group) * target.geometry.tile_slots),
            len(group),
        )
        moves = [target.move(Slot(staged, i), slot) for i, (_, slot) in enumerate(group)]

        def write_back() -> None:
            self.request.begin()
            self.request.follow(self._copy(moves), stored)

        def stored(error: BaseException | None) -> None:
            if error is not None:
                self.request.end(error)
            else:
                target.stats.add(bytes_written_back=target.tile_bytes * len(group))
                self.request.guarded(lambda: self._spill(groups[1:]) if groups[1:] else None)

        self._group([(k, Slot(staged, i)) for i, (k, _) in enumerate(group)], write_back)

    def mark(self) -> None:
        """The written tiles become valid, and dirty on primary; under the target's lock."""
        table = self.target.table
        for k, slot in self._placed:
            record = table[self.codes[k]]
            record.valid = record.dirty = True
            table.place(record, slot)
        self.target.placed([self.codes[k] for k, _ in self._placed], True)
        for k, slot in self._spilled:
            record = table[self.codes[k]]
            record.valid, record.dirty, record.secondary = True, False, slot


def base_move(base: Core, source: Slot, target: Core, to: Slot) -> Move:
    """The move of one tile from a core's slot to another core's."""
    size = base.tile_bytes
    return (source.slab.carrier, to.slab.carrier, source.place * size, to.place * size, size)


def sum_into(core: Core, values: torch.Tensor, packing: Packing, tiles: Sequence[tuple[int, Slot]]) -> None:
    """Add compact ``values`` to what ``tiles`` hold; integers are checked for overflow before any is written."""
    if core.dtype.is_float:
        spread(core, values, packing, tiles, add=True)
        return
    with plain_torch():
        source, kind = packing.by_tile(values), core.dtype.torch()
        sums = []
        for k, slot in tiles:
            row = (
                tile_rows(slot.slab, core.geometry, core.dtype)[slot.place].view(kind).view(packing.tile_dims)
            )
            sums.append((row, checked_sum(row, source[packing.place(k)], core)))
        for row, total in sums:
            row.copy_(total)
    if not packing.verbatim:
        core.stats.permuted(False, len(tiles))


def checked_sum(a: torch.Tensor, b: torch.Tensor, core: Core) -> torch.Tensor:
    """``a + b`` of integers. Reads the extremes, so it synchronises with a device.

    Raises:
        OverflowError: a sum outside the type's range.
    """
    import torch

    low, high = core.dtype.range()
    total = a.to(torch.int64) + b.to(torch.int64)
    if core.dtype.itemsize == 8 and bool((((a ^ total) & (b ^ total)) < 0).any()):
        raise OverflowError(f"scatter: a sum is outside the range of {core.dtype}")
    least, most = (int(v) for v in total.aminmax())
    if least < low or most > high:
        raise OverflowError(
            f"scatter: a sum is {least if least < low else most}, outside the range of {core.dtype}"
        )
    return total.to(a.dtype)
