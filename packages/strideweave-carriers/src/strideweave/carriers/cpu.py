"""CPU: torch storage in host memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import seam
from ..dtypes import DType
from ..movement.locked import locked_bytes, rounded_by_torch
from ..movement.pinning import Pinning, owns_pages
from . import hostmemory
from .arguments import as_count, default_dtype
from .base import Carrier
from .pages import Pages
from .sealed import sealed
from .torch_storage import WHOLE_PAGES, TorchStorage, allocate_flat, no_slots, outside_inference

if TYPE_CHECKING:
    import torch


@sealed
class CPU(TorchStorage):
    """``CPU(size)`` owns fresh memory, zero unless ``empty``; ``CPU(size, pointer)`` uses memory of the caller's.

    ``pointer`` is an address that stays valid until ``release``; the caller keeps its owner alive and frees
    it. ``pinned=True`` takes page-locked memory, which devices copy from and to at full speed; it needs CUDA. A graph
    that was captured over it reads and writes that memory whenever it is replayed: keep the carrier for as long.
    ``pin_lazily`` locks what there is.

    Raises:
        TypeError: ``size`` or ``pointer`` is no integer, or ``dtype`` no element type.
        ValueError: a negative size, a null pointer with a size, or a pointer that is not aligned to ``dtype``.
        RuntimeError: no CUDA device for page-locked memory, or the driver locks no more.
        MemoryError: the system gives no more.
    """

    def __init__(
        self,
        size: int = 0,
        pointer: int | None = None,
        *,
        mutable: bool = True,
        dtype: DType | None = None,
        empty: bool = False,
        pinned: bool = False,
    ) -> None:
        # Empty carriers of a given type are made for single moves, which every function called here holds up.
        kind = dtype if type(dtype) is DType else default_dtype(dtype)
        count = size if type(size) is int and size >= 0 else as_count(size, "CPU size")
        Carrier.__init__(self, kind, mutable)
        self._shared = pointer is not None
        if pointer is not None:
            self._set_flat(_wrap_pointer(pointer, count, kind))
        elif pinned:
            self._set_flat(_pinned(count, kind, empty))
            self._pinned_flat, self._pinned = self._flat, count > 0
        elif count:
            self._set_flat(allocate_flat(count, kind, "cpu", empty))
        else:
            self._count, self._late = 0, True

    _pinned_flat: object = None
    _pinned = False

    pinning: Pinning | None = None
    """What page-locks the memory as devices come to use it, where ``pin_lazily`` was called."""

    def pin_lazily(self) -> None:
        """Page-lock the memory chunk by chunk when a device's copy first touches it, until it is given back.

        For memory that moves between carriers only: the driver refuses copies of a range of which just a part is
        page-locked, so torch's own copies of the whole may fail from then on.

        Raises:
            ValueError: the memory is not this carrier's alone: somebody else's pointer or tensor, or less than a
                megabyte, which shares its pages with other objects.
        """
        if self.pinning is not None or self.is_pinned():
            return
        if self._shared or not owns_pages(self._flat):
            raise ValueError(
                f"pin_lazily: the {self.nbytes()} bytes of this CPU carrier share pages with other memory; construct "
                "it with pinned=True, or with a size of at least 1 MiB of its own"
            )
        self.pinning = Pinning(self._flat)

    def _allocate(self, n: int, dtype: DType, empty: bool) -> torch.Tensor:
        return allocate_flat(n, dtype, "cpu", empty) if n else no_slots(dtype)

    def grow(self, n: int) -> None:
        if n * self._dtype.itemsize >= WHOLE_PAGES:
            self._set_pages(Pages(n * self._dtype.itemsize), n)
        else:
            super().grow(n)

    def grow_to_fill(self, n: int) -> memoryview:
        """``grow(n)``; a view of the bytes, for whoever writes them all and then forgets it."""
        nbytes = n * self._dtype.itemsize
        if nbytes >= WHOLE_PAGES:
            pages = Pages(nbytes)
            self._set_pages(pages, n)
            return pages.room
        self.grow(n)
        return self._view()

    def free_storage(self) -> None:
        if self.pinning is not None:
            self.pinning.undo()
            self.pinning = None
        self._forget_pinned()
        self._set_flat(no_slots(self._dtype))

    def is_pinned(self) -> bool:
        """Whether the memory is page-locked."""
        if self._pages is not None:
            return False
        if self._pinned_flat is not self._flat:
            # Asking the driver takes longer than a small copy, so the answer is kept with the storage.
            self._pinned_flat, self._pinned = self._flat, self._flat.numel() > 0 and self._flat.is_pinned()
        return self._pinned

    def _forget_pinned(self) -> None:
        # What is kept with the answer would keep the memory.
        self._pinned_flat, self._pinned = None, False

    def _set_pages(self, pages: Pages, count: int) -> None:
        self._pinned_flat = None
        super()._set_pages(pages, count)

    def may_change_memory(self) -> bool:
        """Whether the slots may come to lie elsewhere: nobody was given their tensor, nothing locked their pages."""
        return not (self._seen or self._shared or self.pinning is not None or self.is_pinned())

    def staging(self, n: int) -> CPU:
        fresh = CPU(0, dtype=self._dtype)
        fresh.grow(n)
        return fresh

    def adopt_storage(self, fresh: Carrier) -> bool:
        if not isinstance(fresh, CPU) or fresh.size() != self.size() or not self.may_change_memory():
            return False
        self._forget_pinned()
        pages, flat = fresh._pages, None if fresh._pages is not None else fresh._flat
        if pages is not None:
            fresh.free_storage()
            self._set_pages(pages, self._count)
        elif flat is not None:
            self._set_flat(flat)
        return True

    def load_bytes(self, offset: int, into: memoryview) -> None:
        into[:] = self._view()[offset : offset + len(into)]

    def store_bytes(self, offset: int, data: memoryview) -> None:
        self._view()[offset : offset + len(data)] = data

    def host_address(self) -> int:
        pages = self._pages
        return self._flat.data_ptr() if pages is None else pages.address

    def _view(self) -> memoryview:
        pages = self._pages
        if pages is not None:
            return pages.room
        return (
            hostmemory.view(self._flat.data_ptr(), self.nbytes()) if self.size() else memoryview(bytearray())
        )


def _wrap_pointer(pointer: int, count: int, dtype: DType):
    import torch

    address = as_count(pointer, "CPU pointer")
    if count and not address:
        raise ValueError(f"CPU: a null pointer for {count} slots; pass the address of the first")
    if address % dtype.itemsize:
        raise ValueError(f"CPU: pointer {address:#x} is not aligned to {dtype.itemsize} bytes of {dtype}")
    if not count:
        return torch.empty(0, dtype=dtype.torch())
    return torch.frombuffer(hostmemory.view(address, count * dtype.itemsize), dtype=dtype.torch())


def _pinned(count: int, dtype: DType, empty: bool):
    import torch

    if not torch.cuda.is_available():
        raise RuntimeError("CPU(pinned=True): page-locked memory needs a CUDA device; leave pinned out here")
    nbytes = count * dtype.itemsize
    if rounded_by_torch(nbytes):
        seam.enter("allocate")
        with outside_inference():
            return locked_bytes(nbytes).view(dtype.torch())
    flat = allocate_flat(count, dtype, "cpu", True).pin_memory()
    if not empty:
        flat.view(torch.uint8).zero_()
    return flat
