"""Evictable: one storage that lies in a primary tier or, evicted, in a secondary one."""

from __future__ import annotations

from collections.abc import Callable

from ..dtypes import DType, as_dtype
from .arguments import as_count
from .base import Carrier
from .sealed import sealed

Copy = Callable[[Carrier, Carrier, int], None]
_copy: list[Copy] = []


def provide_copy(copy: Copy) -> None:
    """Say how ``n`` bytes get from one carrier to another; transfers lie above this file."""
    _copy[:] = [copy]


@sealed
class Evictable(Carrier):
    """``Evictable(primary, secondary)`` owns both tiers; the values are where a tier has slots.

    One tier holds the values, the other is empty (size 0) and says where they go: ``evict()`` to the secondary,
    ``promote()`` to the primary. Both full: the primary's values count. Each transition happens whole or
    not at all, is idempotent, and frees the tier that was left. Operations promote first and run on the
    primary's class.

    Raises:
        TypeError: a tier is no ordinary carrier, the primary does not compute, one carrier is given twice, or
            the element types differ.
        ValueError: both tiers are empty, or full with different sizes.
        RuntimeError: a tier is released, owned or immutable, or the two share storage.
    """

    dependent = True

    def __init__(self, primary: Carrier, secondary: Carrier) -> None:
        _check_tiers(primary, secondary)
        super().__init__(primary.dtype(), True)
        self._n = primary.size() or secondary.size()
        self._evicted = primary.size() == 0
        primary.claim("an Evictable")
        try:
            secondary.claim("an Evictable")
        except BaseException:
            primary.unclaim()
            raise
        self._bind(primary, secondary)

    def _bind(self, primary: Carrier, secondary: Carrier) -> None:
        self._primary, self._secondary = primary, secondary
        self.host = primary.host and secondary.host
        self._moving = False

    def size(self) -> int:
        return self._n

    def is_evicted(self) -> bool:
        """Whether the values lie in the secondary tier."""
        return self._evicted

    def compute_class(self) -> type[Carrier]:
        return type(self._primary)

    def value_carrier(self) -> Carrier:
        return self._secondary if self._evicted else self._primary

    def compute_carrier(self) -> Carrier:
        return self._primary

    def hold_for_compute(self) -> None:
        while True:
            self.promote()
            with self._lock:
                self._await_slot()
                # Another thread may have evicted again in between.
                if not self._evicted:
                    self.hold_for_read()
                    return

    def renew_in_child(self) -> None:
        super().renew_in_child()
        self._stranded, self._moving = self._stranded or self._moving, False

    def _await_slot(self) -> None:
        # A transition is short for its callers too: they wait for it rather than fail.
        while self._slot_busy or self._moving:
            self._turn().wait()

    def evict(self) -> None:
        """Move the values to the secondary tier and free the primary.

        Raises:
            RuntimeError: released, or in use by a request; nothing has changed then.
        """
        self._shift(to_secondary=True)

    def promote(self) -> None:
        """Move the values to the primary tier and free the secondary; raises as ``evict``."""
        self._shift(to_secondary=False)

    def _shift(self, to_secondary: bool) -> None:
        verb = "evict" if to_secondary else "promote"
        with self._lock:
            self._await_slot()
            self.require_live(verb)
            if self._evicted is to_secondary:
                return
            self._require_idle(verb)
            self._moving = True
        source, target = (self._primary, self._secondary)[:: 1 if to_secondary else -1]
        done = False
        try:
            # No lock is held here: the copy needs workers, and a worker may need this carrier's lock.
            _transfer(source, target, self._n)
            done = True
        finally:
            with self._lock:
                self._moving = False
                if done:
                    self._evicted = to_secondary
                    source.grow(0)
                self._turn().notify_all()

    def allocate_like(
        self, n: int, *, mutable: bool = True, dtype: DType | None = None, empty: bool = False
    ) -> Evictable:
        kind = self._dtype if dtype is None else as_dtype(dtype)
        count = as_count(n, "allocate_like")
        primary = self._primary.allocate_like(count, dtype=kind, empty=empty)
        fresh = Evictable.__new__(Evictable)
        if count:
            Evictable.__init__(fresh, primary, self._secondary.allocate_like(0, dtype=kind))
        else:
            fresh._start_empty(primary, self._secondary.allocate_like(0, dtype=kind))
        fresh._mutable = mutable
        return fresh

    def _start_empty(self, primary: Carrier, secondary: Carrier) -> None:
        Carrier.__init__(self, primary.dtype(), True)
        primary.claim("an Evictable")
        secondary.claim("an Evictable")
        self._n, self._evicted = 0, False
        self._bind(primary, secondary)

    def grow(self, n: int) -> None:
        self._primary.grow(n)
        self._n, self._evicted = n, False

    def load_bytes(self, offset: int, into: memoryview) -> None:
        self.value_carrier().load_bytes(offset, into)

    def store_bytes(self, offset: int, data: memoryview) -> None:
        self.value_carrier().store_bytes(offset, data)

    def free_storage(self) -> None:
        self._primary.free_owned()
        self._secondary.free_owned()


def _transfer(source: Carrier, target: Carrier, slots: int) -> None:
    had = target.size()
    if had == 0:
        target.grow(slots)
    try:
        _copy[0](source, target, slots * source.dtype().itemsize)
    except BaseException:
        if had == 0:
            target.grow(0)
        raise


def _check_tiers(primary: Carrier, secondary: Carrier) -> None:
    for name, tier in (("primary", primary), ("secondary", secondary)):
        if not isinstance(tier, Carrier) or tier.dependent:
            raise TypeError(f"Evictable: {name} must be an ordinary carrier, got {type(tier).__name__}")
    if primary is secondary:
        raise TypeError("Evictable: primary and secondary are one carrier; pass two")
    if not primary.compute:
        raise TypeError(
            f"Evictable: primary {type(primary).__name__} only stores; use a compute carrier such as CPU"
        )
    if primary.dtype() is not secondary.dtype():
        raise TypeError(
            f"Evictable: primary holds {primary.dtype()}, secondary {secondary.dtype()}; they must agree"
        )
    for tier in (primary, secondary):
        tier.require_writable("Evictable")
    if primary.shares_storage(secondary):
        raise RuntimeError(
            "Evictable: the tiers share storage, so that freeing one would lose the values; pass two"
        )
    sizes = primary.size(), secondary.size()
    if not any(sizes) or (all(sizes) and sizes[0] != sizes[1]):
        raise ValueError(
            f"Evictable: tiers have {sizes[0]} and {sizes[1]} slots; one holds the values, the other is empty"
        )
