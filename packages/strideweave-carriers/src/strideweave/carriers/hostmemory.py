"""Raw host memory: views over addresses and copies that release the interpreter lock."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

PAGE = 4096
"""Bytes of a page of memory."""


def view(address: int, nbytes: int) -> memoryview:
    """A writable byte view of memory that the caller keeps alive."""
    return memoryview(array(address, nbytes)).cast("B")


def array(address: int, nbytes: int) -> Any:
    """The same as an array of ctypes, which other objects can be hung on."""
    return _array(nbytes).from_address(address)


@lru_cache(maxsize=256)
def _array(nbytes: int) -> Any:
    # ctypes forgets the type with its last object, and making it takes as long as copying a megabyte.
    return ctypes.c_ubyte * nbytes


def copy(target: int, source: int, nbytes: int) -> None:
    """Copy bytes between addresses; other Python threads run meanwhile."""
    ctypes.memmove(target, source, nbytes)


def address_of(buffer: bytearray) -> int:
    """The address of a bytearray's first byte; valid while it is neither resized nor freed."""
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer)) if buffer else 0
