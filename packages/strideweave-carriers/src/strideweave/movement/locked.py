"""Page-locked host memory of exactly the size asked for, as a torch tensor.

torch's own comes in powers of two, which for 384 MiB is a third more than that. Here it is as many whole pages as are
needed, straight from the system, and zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..carriers import hostmemory
from ..carriers.mapping import Mapping, map_pages
from . import driver, page_locks
from .interrupts import interrupts_deferred
from .retirement import retirement

if TYPE_CHECKING:
    import torch

SMALLEST = 16 << 20
"""Bytes below which torch's is taken: it is had again in no time, and dropping it keeps no device from its work."""

WASTE = 20
"""torch's is taken too where less than one part in so many is lost to the next power of two."""

LARGE = 1 << 30
"""From this many bytes on a request waits for memory that is on its way back: there may be no room for both."""

PATIENCE = 10.0
"""Seconds that a request waits for memory that is on its way back, at most."""


def rounded_by_torch(nbytes: int) -> bool:
    """Whether torch would take so much more than ``nbytes`` that memory of the exact size is worth its while.

    That is memory that the driver of NVIDIA's devices locks, where one of them is visible: the driver unlocks it once
    the device is done under which it was locked, and does not ask others, whose copies would fail. Elsewhere there is
    torch's alone.
    """
    import torch

    if nbytes < SMALLEST or not page_locks.is_there() or torch.cuda.device_count() != 1:
        return False
    return (1 << (nbytes - 1).bit_length()) - nbytes > nbytes // WASTE


def locked_bytes(nbytes: int) -> torch.Tensor:
    """A flat uint8 tensor over page-locked memory, zero, given back once nothing shares its storage any more.

    Raises:
        MemoryError: the system maps no more.
        RuntimeError: the driver locks no more, or there is no device; nothing is left of what was mapped.
    """
    import torch

    torch.cuda.init()
    retirement().start()
    if nbytes >= LARGE:
        retirement().settle(PATIENCE)
    try:
        pages = LockedPages(nbytes, torch.cuda.current_device())
    except (MemoryError, RuntimeError):
        # What was let go a moment ago may be what is missing.
        if not retirement().settle(PATIENCE):
            raise
        pages = LockedPages(nbytes, torch.cuda.current_device())
    room = hostmemory.array(pages.address, nbytes)
    # torch keeps the array with the storage, and the array keeps the pages.
    room.pages = pages
    return torch.frombuffer(room, dtype=torch.uint8)


@dataclass(frozen=True, slots=True)
class _Block:
    """A mapping, locked as a whole; see ``Retired``."""

    memory: Mapping
    addresses: list[int]

    def free(self) -> None:
        self.memory.unmap()


class LockedPages:
    """As few whole pages as hold ``nbytes`` bytes, page-locked until this object is gone."""

    __slots__ = ("_block", "_retire", "address")

    def __init__(self, nbytes: int, device: int) -> None:
        self._block: _Block | None = None
        self._retire = retirement().retire
        # Interrupted half way, memory could be unmapped while the driver still has it.
        with interrupts_deferred():
            status = page_locks.enter_context(device)
            if not status:
                memory = map_pages(nbytes)
                # Not by the driver, which does nothing else meanwhile.
                memory.populate()
                status = page_locks.lock(memory.address, memory.nbytes)
                if status:
                    memory.unmap()
                else:
                    self.address = memory.address
                    self._block = _Block(memory, [memory.address])
        if status:
            _refuse(status, nbytes)

    def __del__(self) -> None:
        if self._block is not None:
            self._retire(self._block)


def _refuse(status: int, nbytes: int) -> None:
    try:
        driver.refuse(status, f"CPU(pinned=True): page-locking {nbytes} bytes")
    except RuntimeError as error:
        raise RuntimeError(
            f"{error}; ask for less, free some, or leave pinned out and call pin_lazily(), which locks what it can"
        ) from None
