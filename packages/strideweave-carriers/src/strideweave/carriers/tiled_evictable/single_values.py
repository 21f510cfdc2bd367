"""Single values of a tiled carrier: read from the tier that has them, written on primary."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...movement.interrupts import interrupts_deferred
from .core import Core
from .request import Request
from .slots import Slot
from .update import write_tiles

if TYPE_CHECKING:
    from .carrier import TiledEvictable


def read_bytes(core: Core, offset: int, into: memoryview) -> None:
    """Fill ``into`` from byte ``offset``, tile by tile, from whichever tier has it.

    Raises:
        RuntimeError: a tile has no value, or is being written.
    """
    done, size = 0, core.tile_bytes
    while done < len(into):
        code, within = divmod(offset + done, size)
        length = min(len(into) - done, size - within)
        _read_piece(core, code, within, into[done : done + length])
        done += length


def _read_piece(core: Core, code: int, within: int, into: memoryview) -> None:
    request = Request(core, "get_value")
    slot = _pinned(core, request, code)
    try:
        if slot is None:
            into[:] = bytes(len(into))
        else:
            slot.slab.carrier.load_bytes(slot.place * core.tile_bytes + within, into)
    finally:
        request.close()


def _pinned(core: Core, request: Request, code: int) -> Slot | None:
    """Where a tile can be read now; it stays there until the request closes. None: it is zero."""
    while True:
        with core.lock:
            record = core.table.peek(code)
            if record.claim is not None and record.claim.what.startswith(("update", "set_value")):
                raise RuntimeError(
                    f"get_value: an incomplete {record.claim.what} writes that tile; wait() for it first"
                )
            if not record.valid:
                raise RuntimeError(
                    f"get_value: tile {core.geometry.coordinate(code)} has no value yet; scatter or update it first"
                )
            moving = record.transit
            if moving is None or moving.passive or record.primary is None:
                request.pin([core.table[code]])
                core.admit(request)
                return record.primary if record.primary is not None else record.secondary
        settled = threading.Event()
        moving.arrived.add_callback(settled.set)
        settled.wait()


def write_bytes(carrier: TiledEvictable, offset: int, data: bytes) -> None:
    """Write ``data`` at byte ``offset``, within one tile: it is promoted, written and marked dirty.

    Raises:
        RuntimeError: a request uses the carrier.
    """
    core = carrier._core
    code, within = divmod(offset, core.tile_bytes)

    def write(slots: list[tuple[int, Slot]]) -> None:
        ((_, slot),) = slots
        slot.slab.carrier.store_bytes(slot.place * core.tile_bytes + within, memoryview(data))

    entered: list[bool] = []
    with interrupts_deferred():
        carrier.hold_for_write("set_value")
        try:
            completion = write_tiles(
                core, (code,), "set_value", write, blank=False, finish=lambda: carrier.drop_write(True),
                abandon=lambda: (entered.append(True), carrier.drop_write(False))[1],
            )  # fmt: skip
        except BaseException:
            if not entered:
                carrier.drop_write(False)
            raise
    completion.result()
