"""Raw host memory: views over addresses and copies that release the interpreter lock."""

from __future__ import annotations

import ctypes

PAGE = 4096
"""Bytes of a page of memory."""


def view(address: int, nbytes: int) -> memoryview:
    """A writable byte view of memory that the caller keeps alive."""
    return memoryview((ctypes.c_ubyte * nbytes).from_address(address)).cast("B")


def copy(target: int, source: int, nbytes: int) -> None:
    """Copy bytes between addresses; other Python threads run meanwhile."""
    ctypes.memmove(target, source, nbytes)


def address_of(buffer: bytearray) -> int:
    """The address of a bytearray's first byte; valid while it is neither resized nor freed."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer)) if buffer else 0
