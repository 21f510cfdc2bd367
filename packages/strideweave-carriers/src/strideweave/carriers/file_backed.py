"""FileBacked: slots that lie in files, moved with pread and pwrite."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterable

from .. import seam
from ..dtypes import DType, as_dtype
from .arguments import as_count, default_dtype
from .base import Carrier
from .extents import Extent, Extents
from .sealed import sealed
from .stored import stored


@sealed
class FileBacked(Carrier):
    """``FileBacked(filename, size)`` keeps its slots in a file; without a name, in an unnamed temporary one.

    An existing file's slots are kept; without ``size`` they are what the file holds. A larger ``size``
    extends it with zeros. An immutable one is opened for reading only. The file is closed at ``release`` or
    when the carrier is collected.

    Raises:
        OSError: the file cannot be opened.
        ValueError: a file whose length is no multiple of the element size, or an immutable file too short.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str] | None = None,
        size: int | None = None,
        *,
        mutable: bool = True,
        dtype: DType | None = None,
        empty: bool = False,
    ) -> None:
        super().__init__(default_dtype(dtype), mutable)
        seam.enter("allocate")
        self._path, fd = _open(filename, mutable)
        try:
            self._count = self._fit(fd, size, mutable)
        except BaseException:
            os.close(fd)
            raise
        self._bind((fd,), Extents((Extent(fd, self._path, 0, self._count * self._dtype.itemsize),)))

    def _bind(self, fds: tuple[int, ...], extents: Extents) -> None:
        self._extents = extents
        # Closing needs no lock, so it may run from the collector.
        self._close = weakref.finalize(self, _close_all, fds)
        self._fd = fds[0] if fds else -1

    def _fit(self, fd: int, size: int | None, mutable: bool) -> int:
        have, item = os.fstat(fd).st_size, self._dtype.itemsize
        if size is None:
            if have % item:
                raise ValueError(
                    f"{self._path}: {have} bytes are no whole number of {self._dtype}; pass size="
                )
            return have // item
        count = as_count(size, "FileBacked size")
        if have < count * item:
            if not mutable and self._path:
                raise ValueError(
                    f"{self._path}: holds {have} bytes, {count} slots of {self._dtype} need {count * item}"
                )
            os.truncate(fd, count * item)
        return count

    @classmethod
    def from_extents(
        cls, extents: Iterable[tuple[str | os.PathLike[str], int, int]], dtype: DType
    ) -> FileBacked:
        """A read-only carrier over ``(path, offset, nbytes)`` ranges in the order given, as they lie.

        Raises:
            OSError: a file cannot be opened.
            ValueError: a range leaves its file or is no whole number of elements.
        """
        self = cls.__new__(cls)
        Carrier.__init__(self, as_dtype(dtype), False)
        opened: dict[str, int] = {}
        try:
            parts = tuple(_extent(opened, self._dtype, *item) for item in extents)
        except BaseException:
            _close_all(tuple(opened.values()))
            raise
        self._path = parts[0].path if parts else ""
        self._bind(tuple(opened.values()), Extents(parts))
        self._count = self._extents.nbytes // self._dtype.itemsize
        return self

    @classmethod
    def from_safetensors(cls, path: str | os.PathLike[str], name: str) -> FileBacked:
        """A read-only carrier over one tensor of a safetensors file; its elements in the file's order.

        Raises:
            KeyError: the file has no such tensor; the message lists some that it has.
            TypeError: the tensor's type has no twin here.
            tilefoundry.ir.safetensors_header.HeaderError: the file is damaged or something else.
        """
        found = stored(path, name)
        return cls.from_extents([(found.path, found.begin, found.end - found.begin)], found.dtype)

    @property
    def filename(self) -> str | None:
        """The (first) file's path; None for a temporary one."""
        return self._path or None

    def size(self) -> int:
        return self._count

    def allocate_like(
        self, n: int, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> FileBacked:
        return FileBacked(
            None, as_count(n, "allocate_like"), mutable=mutable, dtype=self._dtype if dtype is None else dtype
        )

    def load_bytes(self, offset: int, into: memoryview) -> None:
        self._extents.read(offset, into)

    def store_bytes(self, offset: int, data: memoryview) -> None:
        self._extents.write(offset, data)

    def file_extents(self) -> tuple[Extent, ...]:
        return self._extents.parts

    def grow(self, n: int) -> None:
        if not self._mutable:
            super().grow(n)
        if n:
            seam.enter("allocate")
        nbytes = n * self._dtype.itemsize
        os.truncate(self._fd, nbytes)
        self._count, self._extents = n, Extents((Extent(self._fd, self._path, 0, nbytes),))

    def sync(self) -> None:
        """Return once the slots are on the storage device."""
        self.require_live("sync")
        os.fsync(self._fd)

    def free_storage(self) -> None:
        self._close()
        self._count, self._extents = 0, Extents(())


def _open(filename: str | os.PathLike[str] | None, mutable: bool) -> tuple[str, int]:
    if filename is None:
        # Late: it brings compression modules that nothing else here needs.
        import tempfile

        fd, path = tempfile.mkstemp(prefix="strideweave-")
        os.unlink(path)
        return "", fd
    path = os.fspath(filename)
    return path, os.open(path, os.O_RDWR | os.O_CREAT if mutable else os.O_RDONLY, 0o644)


def _extent(
    opened: dict[str, int], dtype: DType, path: str | os.PathLike[str], offset: int, nbytes: int
) -> Extent:
    where = os.fspath(path)
    if where not in opened:
        opened[where] = os.open(where, os.O_RDONLY)
    start, length = as_count(offset, "extent offset"), as_count(nbytes, "extent nbytes")
    size = os.fstat(opened[where]).st_size
    if start + length > size:
        raise ValueError(f"{where}: extent [{start}, {start + length}) leaves the file of {size} bytes")
    if length % dtype.itemsize:
        raise ValueError(f"{where}: extent of {length} bytes is no whole number of {dtype}")
    return Extent(opened[where], where, start, length)


def _close_all(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)
