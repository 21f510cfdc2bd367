"""What a projection costs its caller: Python on the calling thread, until ``project()`` returns.

Resident tiles in a selection that was used before and in one never seen, and missing tiles in runs apart. Beside them
one call of torch on the same thread in the same turns: a core that has been idle or is slow shows there too.
"""

from __future__ import annotations

import random
import statistics
import time

import torch
from carriers_rows import EXPERTS, Row, choose, weights

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable

CALL, RUN, FREE = 50.0, 6.0, 8
"""Microseconds of a request, of each run beyond the first ``FREE``, and how many those are."""


def _spent(carrier: TiledEvictable, tensor: sw.Tensor, selection: sw.TileSelection) -> float:
    begun = time.perf_counter()
    handle = carrier.project(tensor, selection, order="tile")
    took = time.perf_counter() - begun
    handle.wait()
    return took * 1e6


def resident_calls() -> list[Row]:
    """All tiles on primary; few and many in turns, each selection again and again, and each only once."""
    primary = sw.CUDA(EXPERTS * 64) if torch.cuda.is_available() else sw.CPU(EXPERTS * 64)
    carrier = TiledEvictable(primary, sw.CPU(0), (EXPERTS, 1, 1), (1, 8, 8))
    tensor = carrier.full_tensor()
    counts = 8, 32
    known = {n: [choose([(i * 7 + k * 13) % EXPERTS for i in range(n)]) for k in range(40)] for n in counts}
    rng, spent = random.Random(1), {(n, kind): [] for n in counts for kind in ("resident", "never seen")}
    rows, index = torch.randn(EXPERTS, 64, device=primary.device), torch.arange(8, device=primary.device)
    alone: list[float] = []
    for turn in range(30):
        for count, selections in known.items():
            # The first turns fill caches, of torch and of the carrier.
            kept = spent[count, "resident"] if turn >= 10 else []
            kept += [_spent(carrier, tensor, selection) for selection in selections]
            begun = time.perf_counter()
            torch.index_select(rows, 0, index)
            alone.append((time.perf_counter() - begun) * 1e6)
    for _ in range(400):
        for count in counts:
            new = choose(rng.sample(range(EXPERTS), count))
            spent[count, "never seen"].append(_spent(carrier, tensor, new))
    found = [
        Row(f"project() of {n} {kind} tiles, call", statistics.median(times), CALL, "us", 1.0, False)
        for (n, kind), times in spent.items()
    ]
    return [*found, Row("torch.index_select, call", statistics.median(alone), CALL, "us", None, False)]


def missing_calls() -> list[Row]:
    """Tiles of 256 KiB in page-locked memory, none next to another, that are promoted on the way."""
    carrier, tensor = weights("secondary", 64, EXPERTS)
    found = []
    for runs in (1, FREE, 32):
        times = []
        for k in range(60):
            carrier.evict(carrier.primary_tiles)
            times.append(_spent(carrier, tensor, choose([(2 * i + k) % EXPERTS for i in range(runs)])))
        allowed = CALL + RUN * max(0, runs - FREE)
        found.append(
            Row(
                f"project() of {runs} missing runs, call",
                statistics.median(times[10:]),
                allowed,
                "us",
                1.0,
                False,
            )
        )
    carrier.release()
    return found
