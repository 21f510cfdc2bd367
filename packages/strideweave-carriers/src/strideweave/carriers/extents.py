"""Byte ranges of open files that together hold a carrier's slots, read and written with pread and pwrite."""

from __future__ import annotations

import os
import stat
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .. import seam


@dataclass(frozen=True, slots=True)
class Extent:
    """``nbytes`` bytes from ``offset`` of an open file; ``path`` is for messages."""

    fd: int
    path: str
    offset: int
    nbytes: int


def overlap(one: Iterable[Extent], other: Iterable[Extent]) -> bool:
    """Whether a byte of ``one`` is also a byte of ``other``: of one file, whatever names it was opened under."""
    spans = sorted(
        (*_file_of(part.fd), part.offset, part.offset + part.nbytes, whose)
        for whose, parts in enumerate((one, other))
        for part in parts
        if part.nbytes
    )
    ends: dict[int, tuple[tuple[int, int], int]] = {}
    for device, node, begin, end, whose in spans:
        file, reached = ends.get(1 - whose, ((-1, -1), 0))
        if file == (device, node) and begin < reached:
            return True
        mine = ends.get(whose)
        further = mine[1] if mine is not None and mine[0] == (device, node) else 0
        ends[whose] = (device, node), max(end, further)
    return False


def _file_of(fd: int) -> tuple[int, int]:
    """What tells an open file from others; a block device is told by its number, not by its node's place."""
    status = os.fstat(fd)
    return (-1, status.st_rdev) if stat.S_ISBLK(status.st_mode) else (status.st_dev, status.st_ino)


class Extents:
    """Several extents as one run of bytes. Safe for use from several threads at once: reads have no position."""

    def __init__(self, parts: tuple[Extent, ...]) -> None:
        self._parts = parts
        self._first = parts[0] if parts else None
        self._starts = [0]
        for part in parts:
            self._starts.append(self._starts[-1] + part.nbytes)

    @property
    def nbytes(self) -> int:
        """Length of the whole run."""
        return self._starts[-1]

    @property
    def parts(self) -> tuple[Extent, ...]:
        """The extents in order."""
        return self._parts

    def _pieces(self, offset: int, nbytes: int) -> Iterator[tuple[Extent, int, int, int]]:
        """``(extent, offset in its file, position in the request, length)`` of each piece."""
        done, k = 0, bisect_right(self._starts, offset) - 1
        while done < nbytes:
            within = offset + done - self._starts[k]
            part = self._parts[k]
            length = min(nbytes - done, part.nbytes - within)
            if length:
                yield part, part.offset + within, done, length
            done, k = done + length, k + 1

    def read(self, offset: int, into: memoryview) -> None:
        """Fill ``into`` from byte ``offset``.

        Raises:
            OSError: the file has become shorter, or the system refuses.
        """
        # Most runs lie in one file, and most reads give all of it: these wait for no other function.
        first, nbytes = self._first, len(into)
        if first is not None and 0 < nbytes <= first.nbytes - offset:
            if seam.hook is not None:
                seam.enter("read")
            position = first.offset + offset
            got = os.preadv(first.fd, (into,), position)
            if got < nbytes:
                read_fully(first, position, into, got)
            return
        for part, position, start, length in self._pieces(offset, len(into)):
            seam.enter("read")
            read_fully(part, position, into[start : start + length])

    def write(self, offset: int, data: memoryview) -> None:
        """Write ``data`` at byte ``offset``."""
        for part, position, start, length in self._pieces(offset, len(data)):
            seam.enter("write")
            write_fully(part.fd, position, data[start : start + length])


def read_fully(part: Extent, position: int, into: memoryview, done: int = 0) -> None:
    """Read exactly ``len(into)`` bytes of the extent's file from ``position``; the first ``done`` are there."""
    while done < len(into):
        got = os.preadv(part.fd, (into[done:],), position + done)
        done += got
        if got == 0:
            raise OSError(
                f"{part.path}: ends at byte {position + done}, {len(into) - done} more were promised; "
                "the file was shortened after it was opened"
            )


def write_fully(fd: int, position: int, data: memoryview) -> None:
    """Write all of ``data`` at ``position``."""
    done = 0
    while done < len(data):
        done += os.pwrite(fd, data[done:], position + done)
