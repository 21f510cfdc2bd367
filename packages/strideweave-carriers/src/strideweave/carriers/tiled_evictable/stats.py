"""What a tiled carrier did: counters, and a bounded log of residency changes for pictures and traces."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

LOG = 1 << 16
"""Events kept per carrier; older ones are forgotten."""


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters since construction. Bytes count tiles moved between tiers; a tile read where it lies moves none.

    ``bytes_streamed`` were read from secondary past primary, where a tile found no place or was read for one sum only.
    ``requests`` are projections, operations, scatters, backwards and holds; promotions, evictions and updates are none.
    ``hits`` and ``misses`` count required tiles that were, or were not, on primary when a request began.
    ``stalls`` counts waits that found their request unfinished, ``stall_seconds`` how long they took.
    ``prefetched`` tiles were promoted by a prefetcher, ``wasted_prefetch`` of them were dropped unread.
    ``permuted_by_kernel`` and ``permuted_by_torch`` count the copies between tiles and compact tensors that changed the
    order of elements, by what made them: see ``strideweave.kernels``.
    """

    requests: int
    hits: int
    misses: int
    bytes_promoted: int
    bytes_written_back: int
    bytes_streamed: int
    promote_seconds: float
    stalls: int
    stall_seconds: float
    prefetched: int
    wasted_prefetch: int
    permuted_by_kernel: int
    permuted_by_torch: int
    resident_tiles: int
    peak_resident_tiles: int

    @property
    def hit_rate(self) -> float:
        """Hits over required tiles; 1 when none was required."""
        total = self.hits + self.misses
        return self.hits / total if total else 1.0

    @property
    def promote_gigabytes_per_second(self) -> float:
        """Promoted bytes over the time during which promotions were under way; 0 when there were none."""
        return self.bytes_promoted / self.promote_seconds / 1e9 if self.promote_seconds else 0.0


class Recorder:
    """Counts; safe from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.counts: dict[str, float] = dict.fromkeys(
            (
                *("requests", "hits", "misses", "bytes_promoted", "bytes_written_back", "bytes_streamed"),
                *("promote_seconds", "stalls", "stall_seconds", "prefetched", "wasted_prefetch"),
                *("permuted_by_kernel", "permuted_by_torch"),
            ),
            0,
        )
        self.log: deque[tuple[float, int, bool]] = deque(maxlen=LOG)
        self.began = time.perf_counter()
        self._unread: set[int] = set()
        self._loading, self._since = 0, 0.0
        # Counted under the carrier's lock: the most frequent request need not take another one.
        self._all_hits = self._all_hit_tiles = 0

    def renew_in_child(self) -> None:
        """A fresh lock in a forked child, where no promotion goes on."""
        self._lock, self._loading = threading.Lock(), 0

    clock = staticmethod(time.perf_counter)
    """Seconds on the clock that events are stamped with."""

    def add(self, **amounts: float) -> None:
        """Add to counters."""
        with self._lock:
            for name, amount in amounts.items():
                self.counts[name] += amount

    def arriving(self, hits: int, misses: int, codes: Sequence[int]) -> None:
        """``required``, and for the misses ``loading``."""
        with self._lock:
            counts = self.counts
            counts["requests"] += 1
            counts["hits"] += hits
            counts["misses"] += misses
            if self._unread:
                self._unread.difference_update(codes)
            if not self._loading:
                self._since = self.clock()
            self._loading += 1

    def loading(self) -> None:
        """A promotion begins to move bytes; ``loaded`` follows, however it ends."""
        with self._lock:
            if not self._loading:
                self._since = self.clock()
            self._loading += 1

    def loaded(self, nbytes: int) -> None:
        """It has moved ``nbytes``, none where it failed. Time during which several are under way counts once."""
        with self._lock:
            now = self.clock()
            self.counts["promote_seconds"] += now - self._since
            self.counts["bytes_promoted"] += nbytes
            self._since = now
            self._loading -= 1

    def stored(self, victims: Sequence[Any], tile_bytes: int) -> None:
        """Tiles were written back."""
        self.add(bytes_written_back=sum(v.backup is not None for v in victims) * tile_bytes)

    def placed(self, codes: Sequence[int], resident: bool) -> None:
        """Tiles came onto primary together, or left it."""
        now = self.clock() - self.began
        self.log.extend([(now, code, resident) for code in codes])
        if not resident and self._unread:
            wasted = self._unread.intersection(codes)
            self._unread -= wasted
            self.add(wasted_prefetch=len(wasted))

    def prefetching(self, codes: Sequence[int]) -> None:
        """A prefetcher promotes these tiles."""
        with self._lock:
            self._unread.update(codes)
            self.counts["prefetched"] += len(codes)

    def required(self, hits: int, misses: int, codes: Sequence[int]) -> None:
        """A request begins that needs ``codes``."""
        with self._lock:
            self.counts["requests"] += 1
            self.counts["hits"] += hits
            self.counts["misses"] += misses
            if self._unread:
                self._unread.difference_update(codes)

    def hit(self, codes: Sequence[int]) -> None:
        """A request begins whose ``codes`` are all on primary; the caller holds the carrier's lock."""
        self._all_hits += 1
        self._all_hit_tiles += len(codes)
        if self._unread:
            with self._lock:
                self._unread.difference_update(codes)

    def permuted(self, by_kernel: bool, copies: int = 1) -> None:
        """Copies changed the order of elements."""
        self.add(**{"permuted_by_kernel" if by_kernel else "permuted_by_torch": copies})

    def snapshot(self, resident: int, peak: int) -> Stats:
        """The counters now."""
        with self._lock:
            counts = dict(self.counts)
            counts["requests"] += self._all_hits
            counts["hits"] += self._all_hit_tiles
            return Stats(**counts, resident_tiles=resident, peak_resident_tiles=peak)  # type: ignore[arg-type] # counters are whole numbers where ints are declared
