"""Carrier: a flat run of slots of one element type; what every carrier class shares.

A third-party class derives from ``Carrier`` and implements the methods marked *extension*. Public methods
check the lifecycle and then call those. One lock guards a carrier's state; it is never held across provider
calls, waits or user code. Finalisers take no lock.
"""

from __future__ import annotations

import _thread
import itertools
import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tilefoundry.ir.layout import as_int

from .. import forks
from ..dtypes import DType, Scalar, as_dtype
from ..errors import ForkedProcessError
from ..layout import Layout
from .arguments import as_flag
from .extents import Extent, overlap

_serials = itertools.count()


class Carrier(ABC):
    """Slots ``0 .. size()-1`` of ``dtype()``.

    A carrier is *publicly mutable* while it is mutable and no other carrier owns it. A write of values
    advances ``version``; allocation, residency and release do not. Safe for concurrent use; two writers of
    one slot leave the value of one of them.
    """

    host = True
    """Whether ``load_bytes`` and ``store_bytes`` reach the slots from the host without a device."""

    compute = False
    """Whether the class has kernels for operations."""

    dependent = False
    """Whether values live in other carriers that this one owns."""

    # How every carrier begins; one is made with every projection.
    _turns: threading.Condition | None = None
    _slot_busy = _stranded = _released = False
    _owner: str | None = None
    _version = 0

    def __init__(self, dtype: DType, mutable: bool) -> None:
        self._dtype = dtype if type(dtype) is DType else as_dtype(dtype)
        self._mutable = mutable if mutable is True else as_flag(mutable, "mutable")
        self._lock = _thread.RLock()
        self.serial = next(_serials)
        self._born = forks.generation
        # Lists, since taking one off is atomic: whoever ends a hold needs no lock. Holds begin under it.
        self._readers: list[None] = []
        self._writers: list[None] = []
        forks.renew(self)

    def renew_in_child(self) -> None:
        """In a forked child: fresh locks. What a thread of the parent was changing is of no use here."""
        self._stranded = forks.left_locked(self._lock) or bool(self._writers) or self._slot_busy
        self._lock, self._turns = threading.RLock(), None
        # Requests that read go on in the parent only.
        self._readers, self._slot_busy = [], False

    # --- extension -------------------------------------------------------------------------------------

    @abstractmethod
    def size(self) -> int:
        """*Extension.* Number of slots."""

    @abstractmethod
    def allocate_like(
        self, n: int, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> Carrier:
        """*Extension.* A new carrier of this class with ``n`` slots, zero unless ``empty``.

        ``dtype`` defaults to this carrier's. Nothing is shared with this one.
        """

    @abstractmethod
    def load_bytes(self, offset: int, into: memoryview) -> None:
        """*Extension.* Read ``len(into)`` bytes from byte ``offset``; called without locks, from any thread."""

    @abstractmethod
    def store_bytes(self, offset: int, data: memoryview) -> None:
        """*Extension.* Write ``data`` at byte ``offset``; called without locks, from any thread."""

    @abstractmethod
    def free_storage(self) -> None:
        """*Extension.* Give the storage back; called once."""

    def check_gradient(self, layout: Layout, offset: int) -> None:
        """*Extension.* Raise ValueError if a full tensor laid out like this is no gradient on this carrier."""
        return None

    def host_address(self) -> int | None:
        """*Extension.* The address of slot 0 in host memory that may be copied from and to, or None."""
        return None

    def file_extents(self) -> tuple[Extent, ...]:
        """*Extension.* Where the slots lie in files, for telling whether two carriers share them."""
        return ()

    def grow(self, n: int) -> None:
        """*Extension.* Give a carrier of size 0 storage for ``n`` slots; ``n`` 0 undoes that.

        Raises:
            ValueError: the class cannot.
        """
        raise ValueError(
            f"{type(self).__name__}: has no room for {n} slots and cannot grow; allocate a larger one"
        )

    # --- lifecycle -------------------------------------------------------------------------------------

    def dtype(self) -> DType:
        """The element type."""
        return self._dtype

    def nbytes(self) -> int:
        """Bytes of all slots."""
        return self.size() * self._dtype.itemsize

    @property
    def version(self) -> int:
        """Number of value writes so far."""
        return self._version

    def value_token(self) -> tuple[int, ...]:
        """What changes whenever values may have changed: the version, and more where storage is shared."""
        return (self._version,)

    def is_mutable(self) -> bool:
        """Whether values may be written through the public interface now."""
        return self._mutable and self._owner is None

    def is_owned(self) -> bool:
        """Whether another carrier owns this one's storage."""
        return self._owner is not None

    def is_released(self) -> bool:
        """Whether ``release`` was called."""
        return self._released

    def release(self) -> None:
        """Give the storage back. Idempotent.

        Raises:
            RuntimeError: owned by another carrier, or needed by a request that has not ended.
        """
        with self._lock:
            self._await_slot()
            if self._released:
                return
            if self._owner is not None:
                raise RuntimeError(
                    f"release: this {self._name()} is owned by {self._owner}; release that instead"
                )
            self._require_idle("release")
            self._released = True
        self.free_storage()

    def _require_idle(self, verb: str) -> None:
        if self._readers or self._writers:
            raise RuntimeError(
                f"{verb}: {len(self._readers) + len(self._writers)} request(s) still use this {self._name()}; "
                "wait for them first"
            )

    def require_live(self, verb: str) -> None:
        """Raise RuntimeError if released, or if a fork caught this carrier half changed."""
        if self._stranded:
            raise ForkedProcessError(
                f"{verb}: a thread of the parent process was changing this {self._name()} when this child was forked; "
                "use it in the parent, or start workers with spawn"
            )
        if self._released:
            raise RuntimeError(f"{verb}: this {self._name()} was released; its values are gone")

    def require_writable(self, verb: str) -> None:
        """Raise RuntimeError if released, owned, immutable or used by a request that has not ended."""
        self.require_live(verb)
        if self._owner is not None:
            raise RuntimeError(f"{verb}: this {self._name()} is owned by {self._owner}; write through that")
        if not self._mutable:
            raise RuntimeError(
                f"{verb}: this {self._name()} is immutable; copy it with new_like(..., mutable=True)"
            )
        self._require_idle(verb)

    def _name(self) -> str:
        return type(self).__name__

    # --- claims and holds ------------------------------------------------------------------------------

    def claim(self, owner: str) -> None:
        """Become part of another carrier.

        Raises:
            RuntimeError: released, owned already, or in use.
        """
        with self._lock:
            self._await_slot()
            self.require_live("claim")
            if self._owner is not None:
                raise RuntimeError(
                    f"claim: this {self._name()} is owned by {self._owner} already; pass another tier"
                )
            self._require_idle("claim")
            self._owner = owner

    def unclaim(self) -> None:
        """Undo ``claim``."""
        with self._lock:
            self._owner = None

    def free_owned(self) -> None:
        """Release on behalf of the owner. Idempotent."""
        with self._lock:
            if self._released:
                return
            self._released, self._owner = True, None
        self.free_storage()

    def hold_for_read(self) -> None:
        """Keep values in place for a request: no write and no release until ``drop_read``."""
        with self._lock:
            self._await_slot()
            self.require_live("read")
            if self._writers:
                raise RuntimeError(f"read: a request still writes this {self._name()}; wait for it first")
            self._readers.append(None)

    def hold_for_compute(self) -> None:
        """``hold_for_read`` with the values on ``compute_carrier()``."""
        self.hold_for_read()

    def drop_read(self) -> None:
        """End a ``hold_for_read``."""
        self._readers.pop()

    def hold_for_write(self, verb: str) -> None:
        """Reserve for a request that will write: nobody else reads, writes or releases until ``drop_write``."""
        with self._lock:
            self._await_slot()
            self.require_writable(verb)
            self._writers.append(None)

    def drop_write(self, wrote: bool) -> None:
        """End a ``hold_for_write``; ``wrote`` advances the version."""
        # Nobody else writes values until the hold is off.
        self._version += wrote
        self._writers.pop()

    def wrote(self) -> None:
        """Advance the version after a write of values."""
        with self._lock:
            self._version += 1

    # --- values ----------------------------------------------------------------------------------------

    def get_value(self, i: int) -> Scalar:
        """The value of slot ``i``.

        Raises:
            RuntimeError: released, or a request still writes it.
            TypeError: ``i`` is no integer.
            IndexError: ``i`` is outside ``[0, size)``.
        """
        self.require_live("get_value")
        index = self._slot(i)
        buffer = bytearray(self._dtype.itemsize)
        with self._one_slot("get_value", write=False):
            self.load_bytes(index * self._dtype.itemsize, memoryview(buffer))
        return self._dtype.unpack(buffer)

    def set_value(self, i: int, v: Scalar) -> None:
        """Write slot ``i``; floats are rounded to the element type.

        Raises:
            RuntimeError: released, owned, immutable, or in use by a request.
            TypeError: ``i`` is no integer or ``v`` of another kind.
            OverflowError: an integer outside the element type's range.
            IndexError: ``i`` is outside ``[0, size)``.
        """
        self.require_live("set_value")
        index = self._slot(i)
        data = self._dtype.pack(self._dtype.check(v))
        with self._one_slot("set_value", write=True):
            self.store_bytes(index * self._dtype.itemsize, memoryview(data))

    def _turn(self) -> threading.Condition:
        """What threads that take turns wait on; the lock is held. Made when first needed: most carriers never do."""
        if self._turns is None:
            self._turns = threading.Condition(self._lock)
        return self._turns

    def _await_slot(self) -> None:
        """Wait out another thread's access to a single slot, which is short; the lock is held."""
        while self._slot_busy:
            self._turn().wait()

    @contextmanager
    def _one_slot(self, verb: str, write: bool) -> Iterator[None]:
        """Access to one slot: threads take turns, requests that have not ended are refused, not awaited."""
        with self._lock:
            self._await_slot()
            self._admit(verb, write)
            self._slot_busy = True
        wrote = False
        try:
            yield
            wrote = write
        finally:
            with self._lock:
                self._slot_busy = False
                self._version += wrote
                self._turn().notify_all()

    def _admit(self, verb: str, write: bool) -> None:
        if write:
            self.require_writable(verb)
            return
        self.require_live(verb)
        if self._writers:
            raise RuntimeError(f"{verb}: a request still writes this {self._name()}; wait for it first")

    def _slot(self, i: Any) -> int:
        index = as_int(i, "slot")
        if not 0 <= index < self.size():
            raise IndexError(f"slot: {index} is outside [0, {self.size()}) of this {self._name()}")
        return index

    def new_like(
        self, values: Iterable[Scalar], *, mutable: bool = True, dtype: DType | None = None
    ) -> Carrier:
        """A new carrier of this class that holds ``values``, rounded to ``dtype`` (default: this one's)."""
        kind = self._dtype if dtype is None else as_dtype(dtype)
        data = b"".join(kind.pack(kind.check(v)) for v in values)
        fresh = self.allocate_like(len(data) // kind.itemsize, mutable=mutable, dtype=kind, empty=True)
        if data:
            fresh.store_bytes(0, memoryview(data))
        return fresh

    def value_carrier(self) -> Carrier:
        """The carrier in which the values lie now; itself for all but dependent carriers."""
        return self

    def compute_class(self) -> type[Carrier]:
        """The class of ``compute_carrier()``; moves nothing."""
        return type(self)

    def staging(self, n: int) -> Carrier:
        """*Extension.* A carrier of the class for ``n`` values that may come to be adopted, or copied from."""
        return self.allocate_like(n, empty=True)

    def adopt_storage(self, fresh: Carrier) -> bool:
        """*Extension.* Take over the storage of ``fresh`` (same class and size); False where it cannot."""
        return False

    def compute_carrier(self) -> Carrier:
        """The carrier whose class provides kernels for these values; itself for all but dependent carriers."""
        return self

    def shares_storage(self, other: Carrier) -> bool:
        """Whether a byte of ``other`` is also a byte of this carrier."""
        if self is other:
            return True
        mine, theirs = self.host_address(), other.host_address()
        if mine is None or theirs is None:
            files = self.file_extents()
            return bool(files) and overlap(files, other.file_extents())
        return mine < theirs + other.nbytes() and theirs < mine + self.nbytes()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError(
            f"{self._name()}: a carrier owns its storage, so it is neither copied nor pickled; move() its tensor to a "
            "fresh carrier, or send another process the values (to_numpy) or the path of their file"
        )

    def __repr__(self) -> str:
        if self._released:
            return f"<{self._name()} released>"
        state = "mutable" if self.is_mutable() else "owned" if self.is_owned() else "immutable"
        return f"<{self._name()} {self.size()} x {self._dtype} {state}>"
