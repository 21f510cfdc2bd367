"""What the sections of the tiled benchmark share: rows, clocks, and weights to move."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection, TileSet
from strideweave.carriers.tiled_evictable.tensors import flat_values

EXPERTS, ROWS, COLUMNS = 128, 768, 2048


@dataclass
class Row:
    """One comparison; ``ratio`` is judged against ``goal``, from below for rates and from above for times."""

    name: str
    ours: float
    peer: float
    unit: str
    goal: float | None
    higher: bool

    @property
    def ratio(self) -> float:
        """Ours over the peer's."""
        return self.ours / self.peer

    @property
    def good(self) -> bool:
        """Whether the goal is met; lines without one always are."""
        return self.goal is None or (self.ratio >= self.goal if self.higher else self.ratio <= self.goal)


def tiles(codes) -> TileSet:
    """Experts as a set."""
    return TileSet((e, 0, 0) for e in codes)


def choose(codes) -> TileSelection:
    """Experts as a selection."""
    return TileSelection([codes, [0], [0]])


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call on the host."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_turns(ours: Callable[[], float], peer: Callable[[], float], repeat: int) -> tuple[float, float]:
    """Medians of two measures taken in turns."""
    ours()
    peer()
    pairs = [(ours(), peer()) for _ in range(repeat)]
    mine, theirs = zip(*pairs, strict=True)
    return statistics.median(mine), statistics.median(theirs)


def weights(
    where: str, rows: int = ROWS, capacity: int | None = EXPERTS, *, pinned: bool = True
) -> tuple[TiledEvictable, sw.Tensor]:
    """[128, rows, 2048] bf16 in one expert per tile, random, on the device or in host memory.

    That is page-locked from the start or, unless ``pinned``, as copies come to touch it.
    """
    size = EXPERTS * rows * COLUMNS
    tier = sw.CUDA(size, dtype=sw.BFloat16, empty=True) if where == "primary" else sw.CPU(
        size, dtype=sw.BFloat16, empty=True, pinned=pinned
    )  # fmt: skip
    noise = torch.randn(1 << 24, device="cuda").bfloat16()
    for start in range(0, size, noise.numel()):
        piece = flat_values(tier)[start : start + noise.numel()]
        piece.copy_(noise[: piece.numel()])
    torch.cuda.synchronize()
    if isinstance(tier, sw.CPU) and not pinned:
        tier.pin_lazily()
    tiers = (
        (tier, sw.CPU(0, dtype=sw.BFloat16)) if where == "primary" else (sw.CUDA(0, dtype=sw.BFloat16), tier)
    )
    carrier = TiledEvictable(*tiers, (EXPERTS, 1, 1), (1, rows, COLUMNS), primary_capacity=capacity)
    return carrier, carrier.full_tensor(carrier.row_major_layout())


def on_device(work: Callable[[], object]) -> float:
    """Microseconds that ``work`` takes on the device: queued behind a delay, so that the host is not measured."""
    start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(4_000_000)
    start.record()
    kept = work()
    stop.record()
    stop.synchronize()
    del kept
    return start.elapsed_time(stop) * 1e3
