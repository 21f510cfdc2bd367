"""Hold: tiles that stay on primary, where kernels may read them in place, until a ``with`` block ends."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Any

from ...movement.interrupts import interrupts_deferred
from .acquire import acquire
from .indices import settle_index
from .request import Request
from .requests import (
    check_capacity,
    check_conflicts,
    check_readable,
    close_at_end,
    enter,
    submit,
)
from .selection import TileSelection, as_tile_set
from .slots import Slot
from .tensors import tile_rows

if TYPE_CHECKING:
    import torch

    from .carrier import TiledEvictable
    from .tile_set import TileSet


class Hold:
    """``with carrier.hold(selection) as held:`` brings the tiles onto primary and pins them until the end.

    Within it evictions of the tiles are put off, updates of them and ``release`` are refused, and projections of
    them need no transfer; on CUDA those may be captured into a graph.
    """

    def __init__(self, carrier: TiledEvictable, tiles: TileSelection | TileSet) -> None:
        carrier._ready("hold")
        self._core = carrier._core
        self._codes = _ordered(tiles, carrier)
        self._request: Request | None = None
        self._slots: dict[int, Slot] = {}

    def __enter__(self) -> Hold:
        if self._request is not None:
            raise RuntimeError("hold: this hold is in use already; call carrier.hold again")
        core = self._core
        core.require_own_process("hold")
        check_capacity(core, self._codes, "hold")
        check_conflicts(core, self._codes, "hold")
        check_readable(core, self._codes, "hold")
        request = Request(core, "hold", keeps=True)
        try:
            with interrupts_deferred():
                enter(core, request, self._codes, None, "hold")
                submit(request, lambda: acquire(core, request, self._codes, set(self._codes), self._found))
            request.completion.result()
            self._settle_index()
            with interrupts_deferred():
                self._take(request)
        except BaseException:
            # The block is not entered, so nobody calls __exit__.
            with interrupts_deferred():
                self.__exit__() if self._request is not None else close_at_end(request)
            raise
        return self

    def _take(self, request: Request) -> None:
        request.holder = threading.get_ident()
        self._request = request
        with self._core.lock:
            self._core.held.update(self._codes)

    def _settle_index(self) -> None:
        slots = [self._slots[c] for c in self._codes]
        if len({s.slab for s in slots}) == 1:
            device = tile_rows(slots[0].slab, self._core.geometry, self._core.dtype).device
            settle_index(tuple(s.place for s in slots), device)

    def _found(self, ready: list[tuple[int, Slot]], _: object) -> None:
        self._slots.update(ready)

    def __exit__(self, *_: object) -> None:
        if self._request is None:
            return
        with interrupts_deferred():
            with self._core.lock:
                self._core.held -= Counter(self._codes)
            self._core.mover.finish()
            self._request.close()
            self._request, self._slots = None, {}

    @property
    def slots(self) -> tuple[torch.Tensor, tuple[int, ...]]:
        """``(pool, rows)``: the pool as a torch tensor ``[places, tile slots]``, and each tile's row in it.

        Rows are a tuple of integers in the order of the selection, or ascending for a TileSet: ``pool[list(rows)]``
        copies those tiles, and a kernel is given both to read them in place. A tile's slots follow each other as
        with ``order="tile"``. The tensor shares the pool's memory: read it, and only within the hold.

        Raises:
            RuntimeError: outside the ``with`` block, or the tiles lie in several slabs (give the carrier a
                ``primary_capacity``, which makes one slab, and no ``DeviceBudget``, which allocates tile by tile).
        """
        if self._request is None:
            raise RuntimeError("hold: slots exist within the with block only")
        slabs = {s.slab for s in self._slots.values()}
        if not slabs:
            raise RuntimeError("hold: slots of no tiles lie nowhere; hold at least one tile")
        if len(slabs) != 1:
            raise RuntimeError(f"hold: the tiles lie in {len(slabs)} slabs; {self._way_to_one_slab()}")
        core = self._core
        rows = tile_rows(next(iter(slabs)), core.geometry, core.dtype).view(core.dtype.torch())
        return rows, tuple(self._slots[c].place for c in self._codes)

    def _way_to_one_slab(self) -> str:
        if self._core.budget is None:
            return "construct the carrier with primary_capacity= to get one"
        return (
            "under a DeviceBudget every tile is allocated by itself; give the carrier primary_capacity= and no "
            'budget, or project the tiles with order="tile"'
        )


def _ordered(tiles: Any, carrier: TiledEvictable) -> tuple[int, ...]:
    if isinstance(tiles, TileSelection):
        return tiles.bind(carrier._core.geometry, "hold")
    return as_tile_set(tiles, "hold").bind(carrier._core.geometry, "hold")
