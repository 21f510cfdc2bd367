"""Host memory straight from the system, in whole pages, which goes back to it the moment it is unmapped.

For blocks of megabytes whose size must be exact: allocators round such sizes up and keep what was given back.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
from dataclasses import dataclass
from functools import cache

from .hostmemory import PAGE

HUGE = 2 << 20
"""Bytes of a huge page. Mappings begin at a border of one, so that the system can fill them by huge pages."""

POPULATE_WRITE = 23
"""Linux's advice to give every page its memory now; unknown to Python, and to kernels before 5.14."""

_FAILED = ctypes.c_void_p(-1).value


@dataclass(frozen=True, slots=True)
class Mapping:
    """``nbytes`` bytes of anonymous memory from ``address``, whole pages; whoever has it unmaps it once."""

    address: int
    nbytes: int

    def populate(self) -> None:
        """Give every page its memory, in one call that lets other threads run, where the system can."""
        # One that cannot does it page by page, at the first write.
        _libc().madvise(self.address, self.nbytes, POPULATE_WRITE)

    def unmap(self) -> None:
        """Give the memory back; nothing may use the addresses any more."""
        _unmap(self.address, self.nbytes)


def map_pages(nbytes: int) -> Mapping:
    """At least ``nbytes`` bytes, zero: as few whole pages as hold them.

    Raises:
        MemoryError: the system gives no more.
    """
    length = -(-nbytes // PAGE) * PAGE
    span = length + HUGE
    kinds = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
    base = _libc().mmap(None, span, mmap.PROT_READ | mmap.PROT_WRITE, kinds, -1, 0)
    if base is None or base == _FAILED:
        number = ctypes.get_errno()
        raise MemoryError(
            f"host memory: the system maps no {length} bytes more ({os.strerror(number)}); free some, "
            "or raise the limit of the process's address space"
        )
    start = -(-base // HUGE) * HUGE
    # What lies around is given back; it never had memory.
    for begin, end in ((base, start), (start + length, base + span)):
        if begin < end:
            _unmap(begin, end - begin)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        # Refused by kernels without huge pages, which then use ordinary ones.
        _libc().madvise(start, length, mmap.MADV_HUGEPAGE)
    return Mapping(start, length)


def _unmap(address: int, nbytes: int) -> None:
    if _libc().munmap(address, nbytes):
        number = ctypes.get_errno()
        raise OSError(number, f"munmap of {nbytes} bytes at {address:#x}: {errno.errorcode.get(number)}")


@cache
def _libc() -> ctypes.CDLL:
    library = ctypes.CDLL(None, use_errno=True)
    sizes = ctypes.c_void_p, ctypes.c_size_t
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = (*sizes, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
    library.munmap.argtypes = sizes
    library.madvise.argtypes = (*sizes, ctypes.c_int)
    return library
