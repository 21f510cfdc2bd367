"""Generic: the pure Python reference carrier; bytes in a bytearray, arithmetic in Python numbers."""

from __future__ import annotations

from collections.abc import Iterable

from .. import seam
from ..dtypes import DType, Scalar, as_dtype
from . import hostmemory
from .arguments import as_count, default_dtype
from .base import Carrier
from .sealed import sealed


@sealed
class Generic(Carrier):
    """``Generic(values)`` holds the given numbers, rounded to ``dtype``.

    Raises:
        TypeError: a value is of another kind than ``dtype`` (default Float32).
        OverflowError: an integer outside the range of ``dtype``.
    """

    compute = True

    def __init__(
        self, values: Iterable[Scalar] = (), *, mutable: bool = True, dtype: DType | None = None
    ) -> None:
        super().__init__(default_dtype(dtype), mutable)
        seam.enter("allocate")
        kind = self._dtype
        self._bytes = bytearray(b"".join(kind.pack(kind.check(v)) for v in values))

    def size(self) -> int:
        return len(self._bytes) // self._dtype.itemsize

    def allocate_like(
        self, n: int, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> Generic:
        fresh = Generic((), mutable=mutable, dtype=self._dtype if dtype is None else as_dtype(dtype))
        fresh._bytes = bytearray(as_count(n, "allocate_like") * fresh._dtype.itemsize)
        return fresh

    def load_bytes(self, offset: int, into: memoryview) -> None:
        into[:] = memoryview(self._bytes)[offset : offset + len(into)]

    def store_bytes(self, offset: int, data: memoryview) -> None:
        memoryview(self._bytes)[offset : offset + len(data)] = data

    def host_address(self) -> int | None:
        return hostmemory.address_of(self._bytes)

    def grow(self, n: int) -> None:
        if n:
            seam.enter("allocate")
        self._bytes = bytearray(n * self._dtype.itemsize)

    def adopt_storage(self, fresh: Carrier) -> bool:
        if not isinstance(fresh, Generic) or len(fresh._bytes) != len(self._bytes):
            return False
        self._bytes = fresh._bytes
        return True

    def free_storage(self) -> None:
        # Rebound, not cleared: a copy in flight may still hold a view of the old bytes.
        self._bytes = bytearray()
