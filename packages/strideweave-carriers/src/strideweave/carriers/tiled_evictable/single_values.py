"""Single values of a tiled carrier: read from the tier that has them, written on primary."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ...dtypes import Scalar
from .core import Core
from .request import Request
from .slots import Slot
from .update import write_tiles

if TYPE_CHECKING:
    from .carrier import TiledEvictable


def read_value(core: Core, index: int) -> Scalar:
    """The value of slot ``index``.

    Raises:
        RuntimeError: the tile has no value, or is being written.
    """
    code, within = divmod(index, core.geometry.tile_slots)
    item = core.dtype.itemsize
    request = Request(core, "get_value")
    slot = _pinned(core, request, code)
    try:
        if slot is None:
            return core.dtype.unpack(bytes(item))
        buffer = bytearray(item)
        slot.slab.carrier.load_bytes(slot.index * core.tile_bytes + within * item, memoryview(buffer))
        return core.dtype.unpack(buffer)
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


def write_value(carrier: TiledEvictable, index: int, data: bytes) -> None:
    """Write one slot: its tile is promoted, written and marked dirty.

    Raises:
        RuntimeError: a request uses the carrier.
    """
    core = carrier._core
    code, within = divmod(index, core.geometry.tile_slots)
    carrier.hold_for_write("set_value")
    wrote = False

    def write(slots: list[tuple[int, Slot]]) -> None:
        ((_, slot),) = slots
        slot.slab.carrier.store_bytes(slot.index * core.tile_bytes + within * len(data), memoryview(data))

    try:
        write_tiles(core, (code,), "set_value", write, blank=False, finish=lambda: None).result()
        wrote = True
    finally:
        carrier.drop_write(wrote)
