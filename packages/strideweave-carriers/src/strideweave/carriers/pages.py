"""Fresh host memory in whole pages, for values that are read into it at once.

numpy gives it in a third of the time that torch takes, which counts where a megabyte is read from a file; a tensor
over it is made when somebody asks for one. numpy, which torch brings in too, is imported where memory is first asked
for, to keep the import of this package short.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

from .. import seam
from ..dtypes import DType
from .hostmemory import PAGE

if TYPE_CHECKING:
    import torch


class Pages:
    """``nbytes`` bytes, uninitialised, from the start of a page; no page of theirs holds anything else."""

    __slots__ = ("_memory", "_nbytes", "_start", "address")

    def __init__(self, nbytes: int) -> None:
        import numpy

        seam.enter("allocate")
        # An array; its buffer is unknown to the type checker before Python 3.12.
        self._memory: Any = numpy.empty(nbytes + 2 * PAGE, numpy.uint8)
        begin = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._start, self._nbytes = -begin % PAGE, nbytes
        self.address = begin + self._start

    def bytes(self) -> memoryview:
        """A writable view of all of it, which keeps the memory."""
        return memoryview(self._memory)[self._start : self._start + self._nbytes]

    def tensor(self, n: int, dtype: DType) -> torch.Tensor:
        """A flat tensor over the first ``n`` elements, which keeps the memory."""
        import torch

        whole = torch.from_numpy(self._memory)
        return whole.narrow(0, self._start, n * dtype.itemsize).view(dtype.torch())
