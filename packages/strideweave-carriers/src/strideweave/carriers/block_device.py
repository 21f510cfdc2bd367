"""BlockDevice: a file or device opened as blocks, and the carrier that lives in a run of them.

I/O is in whole, aligned blocks through aligned memory, past the page cache (O_DIRECT) where the filesystem
allows it. Partial blocks at the ends of a write are read first, under the device's lock.
"""

from __future__ import annotations

import mmap
import os
import threading
import weakref

from .. import forks, seam
from ..dtypes import DType, as_dtype
from ..errors import ForkedProcessError
from .arguments import as_count, default_dtype
from .base import Carrier
from .extents import Extent, read_fully, write_fully
from .sealed import sealed

BLOCK = 4096
BOUNCE = 8 << 20


class BlockDevice:
    """``BlockDevice(path)`` opens (or makes) a file, or opens a device, for block-wise use.

    Raises:
        OSError: it cannot be opened.
        ValueError: ``block_size`` is no power of two of at least 512.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, block_size: int = BLOCK, direct: bool | None = None
    ) -> None:
        if block_size < 512 or block_size & (block_size - 1):
            raise ValueError(f"BlockDevice: block_size {block_size} is no power of two of at least 512")
        self.path, self.block_size = os.fspath(path), block_size
        self._fd, self.direct = _open(self.path, direct)
        self._lock = threading.Lock()
        self._born = forks.generation
        self._end = 0
        self._free: list[tuple[int, int]] = []
        self._local = threading.local()
        self._close = weakref.finalize(self, os.close, self._fd)
        forks.renew(self)

    def renew_in_child(self) -> None:
        """In a forked child: a fresh lock, and bounce buffers that are not the parent's memory."""
        self._lock, self._local = threading.Lock(), threading.local()

    def allocate(
        self, size: int, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> BlockDeviceCarrier:
        """A carrier of ``size`` slots in blocks of its own, zero unless ``empty``."""
        kind = default_dtype(dtype)
        count = as_count(size, "BlockDevice.allocate")
        first, blocks = self._reserve(count * kind.itemsize)
        carrier = BlockDeviceCarrier._over(self, first, blocks, count, kind, mutable)
        if not empty and count:
            carrier._clear()
        return carrier

    def _reserve(self, nbytes: int) -> tuple[int, int]:
        if self._born != forks.generation:
            raise ForkedProcessError(
                f"{self.path}: this BlockDevice was opened by a parent process, which allocates from it too; open "
                "another one here, or start workers with spawn"
            )
        if nbytes:
            seam.enter("allocate")
        blocks = -(-nbytes // self.block_size)
        with self._lock:
            for k, (first, free) in enumerate(self._free):
                if free >= blocks:
                    self._free[k : k + 1] = [(first + blocks, free - blocks)] if free > blocks else []
                    return first, blocks
            first, self._end = self._end, self._end + blocks
            end = self._end * self.block_size
            if os.path.isfile(self.path) and os.fstat(self._fd).st_size < end:
                os.truncate(self._fd, end)
            return first, blocks

    def _give_back(self, first: int, blocks: int) -> None:
        if self._born != forks.generation:
            # The blocks are the parent's.
            return
        with self._lock:
            merged: list[tuple[int, int]] = []
            for start, length in sorted([*self._free, (first, blocks)]):
                if merged and sum(merged[-1]) == start:
                    merged[-1] = (merged[-1][0], merged[-1][1] + length)
                elif length:
                    merged.append((start, length))
            self._free = merged

    def _buffer(self) -> memoryview:
        """This thread's aligned bounce buffer."""
        if not hasattr(self._local, "buffer"):
            self._local.buffer = memoryview(mmap.mmap(-1, max(BOUNCE, self.block_size)))
        return self._local.buffer

    def read(self, offset: int, into: memoryview) -> None:
        """Fill ``into`` from byte ``offset`` of the device."""
        done = 0
        for start, length, skip, take in self._spans(offset, len(into)):
            piece = self._buffer()[:length]
            self._read_blocks(start, piece)
            into[done : done + take] = piece[skip : skip + take]
            done += take

    def write(self, offset: int, data: memoryview) -> None:
        """Write ``data`` at byte ``offset`` of the device; one writer at a time per device."""
        done = 0
        with self._lock:
            for start, length, skip, take in self._spans(offset, len(data)):
                piece = self._buffer()[:length]
                if skip or skip + take < length:
                    self._read_blocks(start, piece)
                piece[skip : skip + take] = data[done : done + take]
                seam.enter("write")
                write_fully(self._fd, start, piece)
                done += take

    def _spans(self, offset: int, nbytes: int):
        """Aligned pieces: ``(device offset, aligned length, bytes to skip, bytes wanted)``."""
        size, room, end = self.block_size, len(self._buffer()), offset + nbytes
        while offset < end:
            start = offset - offset % size
            stop = min(-(-end // size) * size, start + room)
            take = min(stop, end) - offset
            yield start, stop - start, offset - start, take
            offset += take

    def _read_blocks(self, start: int, into: memoryview) -> None:
        seam.enter("read")
        read_fully(Extent(self._fd, self.path, start, len(into)), start, into)

    def close(self) -> None:
        """Close the device. Carriers on it become unreadable; release them first."""
        self._close()


def _open(path: str, direct: bool | None) -> tuple[int, bool]:
    flags = os.O_RDWR | os.O_CREAT
    bypass = getattr(os, "O_DIRECT", 0)
    if direct is not False and bypass:
        try:
            return os.open(path, flags | bypass, 0o644), True
        except OSError:
            if direct:
                raise
    return os.open(path, flags, 0o644), False


@sealed
class BlockDeviceCarrier(Carrier):
    """Slots in a run of blocks; made by ``BlockDevice.allocate``, not directly."""

    _device: BlockDevice
    _first: int
    _blocks: int
    _count: int

    def __init__(self, *_: object, **__: object) -> None:
        raise TypeError("BlockDeviceCarrier: call BlockDevice(path).allocate(size, dtype=...)")

    @classmethod
    def _over(
        cls, device: BlockDevice, first: int, blocks: int, count: int, dtype: DType, mutable: bool
    ) -> BlockDeviceCarrier:
        self = cls.__new__(cls)
        Carrier.__init__(self, dtype, mutable)
        self._device, self._first, self._blocks, self._count = device, first, blocks, count
        return self

    @property
    def device(self) -> BlockDevice:
        """The device that the slots lie on."""
        return self._device

    def size(self) -> int:
        return self._count

    def allocate_like(
        self, n: int, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> BlockDeviceCarrier:
        kind = self._dtype if dtype is None else as_dtype(dtype)
        return self._device.allocate(n, mutable=mutable, dtype=kind, empty=empty)

    def _clear(self) -> None:
        zeros = memoryview(bytes(min(BOUNCE, self._blocks * self._device.block_size)))
        whole = self._blocks * self._device.block_size
        for start in range(0, whole, len(zeros)):
            self._device.write(self._base() + start, zeros[: whole - start])

    def _base(self) -> int:
        return self._first * self._device.block_size

    def load_bytes(self, offset: int, into: memoryview) -> None:
        self._device.read(self._base() + offset, into)

    def store_bytes(self, offset: int, data: memoryview) -> None:
        self._device.write(self._base() + offset, data)

    def file_extents(self) -> tuple[Extent, ...]:
        whole = self._blocks * self._device.block_size
        return (Extent(self._device._fd, self._device.path, self._base(), whole),) if whole else ()

    def grow(self, n: int) -> None:
        self._device._give_back(self._first, self._blocks)
        self._first, self._blocks = self._device._reserve(n * self._dtype.itemsize)
        self._count = n

    def free_storage(self) -> None:
        self._device._give_back(self._first, self._blocks)
        self._blocks = self._count = 0
