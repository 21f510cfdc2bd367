"""Fresh host memory in whole pages, for values that are read into it at once.

Making it takes longer than it seems where a megabyte is read from a file: with nothing in the caches, as after a copy,
it costs as much as a tenth of the reading. So numpy gives it, in a third of the time that torch takes, a tensor over
it is made when somebody asks for one, and memory that nobody outside this module ever had is used again.

numpy, which torch brings in too, is imported where memory is first asked for, to keep the import of this package short.
"""

from __future__ import annotations

import ctypes
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from .. import seam
from ..dtypes import DType
from .hostmemory import PAGE

if TYPE_CHECKING:
    import torch

KEPT, LARGEST = 4, 4 << 20
"""How many blocks that were given back are kept for the next, and of how many bytes each at most."""


class _Block(NamedTuple):
    """Memory that numpy holds, and its whole pages."""

    memory: Any
    """An array; its buffer is unknown to the type checker before Python 3.12."""
    start: int
    """Byte of the array where the pages begin."""
    address: int
    room: memoryview


_spare: deque[_Block] = deque(maxlen=KEPT)
"""Taken from and added to in single steps, by any thread and by the collector: no lock."""


def _fresh(nbytes: int) -> _Block:
    import numpy

    memory: Any = numpy.empty(nbytes + 2 * PAGE, numpy.uint8)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    start = -begin % PAGE
    return _Block(memory, start, begin + start, memoryview(memory)[start : start + nbytes])


def _take(nbytes: int) -> _Block:
    """A block of that size: a spare one, or a fresh one."""
    for _ in range(KEPT):
        try:
            block = _spare.pop()
        except IndexError:
            break
        if len(block.room) == nbytes:
            return block
        _spare.appendleft(block)
    return _fresh(nbytes)


class Pages:
    """``nbytes`` bytes, uninitialised, from the start of a page; no page of theirs holds anything else."""

    __slots__ = ("_block", "_lent", "address", "room")

    def __init__(self, nbytes: int) -> None:
        # First, for the end of one that could not be made.
        self._lent = True
        if seam.hook is not None:
            seam.enter("allocate")
        self._block = block = _take(nbytes)
        self.address = block.address
        self.room = block.room
        """A writable view of all of it, for use while this object lives and not to be handed on."""
        self._lent = nbytes > LARGEST

    def tensor(self, n: int, dtype: DType) -> torch.Tensor:
        """A flat tensor over the first ``n`` elements, which keeps the memory."""
        import torch

        self._lent = True
        block = self._block
        return torch.from_numpy(block.memory).narrow(0, block.start, n * dtype.itemsize).view(dtype.torch())

    def __del__(self, keep=_spare.append) -> None:
        # Bound above: at the end of the interpreter names of modules may be gone.
        if not self._lent:
            keep(self._block)
