"""How many threads share a row, how many rows share a block, and how many elements a thread takes."""

from __future__ import annotations

from dataclasses import dataclass

from tilefoundry.codegen.cpu.schedule.plan import sample
from tilefoundry.ir.types import Dim, bounds

__all__ = ["BLOCK", "MOST_THREADS", "Geometry", "pack_width", "reduced_geometry", "streaming_geometry"]

BLOCK = 256
MOST_THREADS = 1024
_ACCESS_BYTES = 16
_PACKS = 4
_KEPT = 64
"""Elements of a row that one thread keeps in registers, at most."""

_NARROW = 32
"""Packs of a row that one warp or less takes, a pack per thread."""

_FEW = 8
"""Packs of a row below which its threads take one each."""

_WIDE = 2048
"""A row of more packs than these does not stay in registers, of which two blocks would need more than there are: it
waits in shared memory, or is read once per pass, the first time from memory and then from the caches."""

_STAGING_THREADS = 512
_STAGED = 112 * 1024
"""Bytes of a row that waits in shared memory, at most: a multiprocessor holds two blocks of this size. With one alone
memory would lie idle while its row is joined."""

_MANY_THREADS = 512
_PROCESSORS = 132


@dataclass(frozen=True, slots=True)
class Geometry:
    """The block of a row kernel.

    Attributes:
        threads: threads that share a row; a power of two.
        rows: rows of a block.
        width: elements that move together.
        elements: elements that one thread takes of a row, a multiple of ``width``; None where only the call
            knows.
        staged: the elements of a row that more than one pass reads wait in shared memory, not in registers.
    """

    threads: int
    rows: int
    width: int
    elements: int | None
    staged: bool = False

    @property
    def tile(self) -> int:
        """Elements of a row that its threads take together; of no meaning where ``elements`` is None."""
        return self.threads * (self.elements or 0)


def pack_width(item_sizes: list[int], extent: Dim) -> int:
    """Elements per access: 16 bytes of the widest type, cut until a static extent is a multiple."""
    if not item_sizes:
        return 1
    width = max(_ACCESS_BYTES // max(item_sizes), 1)
    while isinstance(extent, int) and width > 1 and extent % width:
        width //= 2
    return width


def reduced_geometry(extent: Dim, rows: Dim, width: int, kept: int = 0, joins: int = 1) -> Geometry:
    """For rows that are joined: all of a row's elements lie with the threads of one block.

    ``kept`` is the bytes per element of what several passes read and may wait in shared memory; ``joins`` is how
    often the threads of a row meet one after another.
    """
    if not isinstance(extent, int):
        most = bounds(extent)[1]
        threads = 32 if most <= 512 else 128 if most <= 4096 else BLOCK
        return Geometry(threads, _rows_per_block(threads, rows), width, None)
    packs = max(-(-extent // width), 1)
    if width == 1:
        threads = _power_of_two(-(-packs // 8))
        elements = -(-packs // threads)
        return Geometry(threads, _rows_per_block(threads, rows), 1, elements if elements <= _KEPT else None)
    if packs > _WIDE:
        pieces = -(-packs // _STAGING_THREADS)
        if waits_in_shared(_STAGING_THREADS * pieces * width, kept):
            return Geometry(_STAGING_THREADS, 1, width, pieces * width, staged=True)
        return Geometry(MOST_THREADS, 1, width, None)
    # Nobody else works meanwhile: the more threads take part, the sooner the one row is done.
    if rows == 1 and packs >= BLOCK // 2:
        threads = BLOCK
        while -(-packs // threads) * width > _KEPT:
            threads *= 2
        return Geometry(threads, 1, width, -(-packs // threads) * width)
    threads, pieces = _short(packs, joins) if packs <= _NARROW else _shared(packs)
    return Geometry(threads, _rows_per_block(threads, rows), width, pieces * width)


def waits_in_shared(elements: int, kept: int) -> bool:
    """Whether a row of which several passes read ``kept`` bytes per element may wait in shared memory."""
    return 0 < elements * kept <= _STAGED


def _short(packs: int, joins: int) -> tuple[int, int]:
    """(threads, packs of each) for a row of one warp at most: half the threads where they meet more than once, which
    saves a step of each meeting and was 3 % faster; with one meeting a pack per thread was 2 % faster."""
    pieces = 2 if joins > 1 and packs >= _FEW else 1
    return _power_of_two(-(-packs // pieces)), pieces


def _shared(packs: int) -> tuple[int, int]:
    """(threads, packs of each) for a row: whole warps, few idle places, then few packs each."""
    choices = [(-(-packs // (32 * pieces)) * 32, pieces) for pieces in (2, 3, 4)]
    return min(choices, key=lambda choice: (choice[0] * choice[1], choice[0] > _MANY_THREADS))


def streaming_geometry(extent: Dim, rows: Dim, width: int) -> Geometry:
    """For elements that are on their own: a block takes a tile of a row, or short rows side by side."""
    length = sample(extent) if isinstance(extent, int) else max(sample(extent), 4096)
    packs = _PACKS if isinstance(extent, int) else 2
    many = sample(rows) * length
    while packs > 1 and many < packs * width * BLOCK * 2 * _PROCESSORS:
        packs //= 2
    threads = min(_power_of_two(-(-length // (width * packs))), BLOCK)
    return Geometry(threads, BLOCK // threads, width, packs * width)


def _rows_per_block(threads: int, rows: Dim) -> int:
    per_block = max(BLOCK // threads, 1)
    if isinstance(rows, int):
        while per_block > 1 and rows < per_block * _PROCESSORS and per_block * threads > BLOCK // 2:
            per_block //= 2
    return per_block


def _power_of_two(n: int) -> int:
    """The least power of two of at least ``n``, within a block."""
    return min(1 << max(n - 1, 0).bit_length(), MOST_THREADS)
