"""Memory straight from the system. Oracle: the kernel's table of this process's pages, ``/proc/self/pagemap``."""

from __future__ import annotations

import array
import ctypes
import sys

import pytest

from strideweave.carriers.hostmemory import PAGE
from strideweave.carriers.mapping import HUGE, map_pages

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")

PRESENT = 1 << 63


def present(address, nbytes):
    """How many bytes of whole pages have memory."""
    with open("/proc/self/pagemap", "rb", buffering=0) as file:
        file.seek(address // PAGE * 8)
        return sum(PAGE for word in array.array("Q", file.read(nbytes // PAGE * 8)) if word & PRESENT)


@pytest.mark.parametrize("nbytes", [1, PAGE, HUGE - 1, HUGE, 3 * HUGE + PAGE + 1])
def test_as_few_whole_pages_as_hold_the_bytes(nbytes):
    block = map_pages(nbytes)
    assert block.nbytes == -(-nbytes // PAGE) * PAGE and block.address % HUGE == 0
    assert present(block.address, block.nbytes) == 0, "memory comes with the first write"
    block.populate()
    assert not any(ctypes.string_at(block.address, block.nbytes)), "fresh memory is zero"
    ctypes.memset(block.address, 1, block.nbytes)
    assert present(block.address, block.nbytes) == block.nbytes
    block.unmap()
    assert present(block.address, block.nbytes) == 0


def test_a_system_that_gives_no_more_is_named():
    """More than any address space has."""
    with pytest.raises(MemoryError, match=r"maps no 4\d{17} bytes more .*raise the limit"):
        map_pages(400_000_000_000_000_000)
