"""What a projection costs its caller: Python on the calling thread, until ``project()`` returns.

Resident tiles in a selection that was used before and in one never seen, and missing tiles in runs apart. Of each call
the time within torch's gather and the driver's copies and events is taken off, which is not Python's; the whole call
stands beside it. A loop of Python is timed in the same turns: processors whose clock has two gears show there.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable

import torch
from carriers_rows import EXPERTS, Row, choose, weights

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable
from strideweave.movement import driver

CALL, RUN, FREE = 50.0, 6.0, 8
"""Microseconds of a request, of each run beyond the first ``FREE``, and how many those are."""


class Elsewhere:
    """Within it the time is counted that torch's gather and the driver's copies and events take."""

    def __init__(self) -> None:
        calls = driver.bound(torch.cuda.current_device()) if torch.cuda.is_available() else None
        names = ("queue", "copy_batch", "event_record") if calls is not None else ()
        self._real: list[tuple[object, str, Callable[..., object]]] = [
            (owner, name, getattr(owner, name))
            for owner, name in ((torch, "index_select"), *((calls, name) for name in names))
        ]
        self.seconds = 0.0

    def __enter__(self) -> Elsewhere:
        for owner, name, call in self._real:
            setattr(owner, name, self._timed(call))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, call in self._real:
            setattr(owner, name, call)

    def _timed(self, call: Callable[..., object]) -> Callable[..., object]:
        def timed(*given: object, **named: object) -> object:
            begun = time.perf_counter()
            result = call(*given, **named)
            self.seconds += time.perf_counter() - begun
            return result

        return timed


Call = tuple[float, float]
"""Microseconds of Python, and of the whole call."""


def _spent(
    carrier: TiledEvictable, tensor: sw.Tensor, selection: sw.TileSelection, elsewhere: Elsewhere
) -> Call:
    before, begun = elsewhere.seconds, time.perf_counter()
    handle = carrier.project(tensor, selection, order="tile")
    took = time.perf_counter() - begun
    outside = elsewhere.seconds - before
    handle.wait()
    return (took - outside) * 1e6, took * 1e6


def _rows(name: str, calls: list[Call], goal: float) -> list[Row]:
    python, whole = (statistics.median(times) for times in zip(*calls, strict=True))
    return [
        Row(f"project() of {name}, Python", python, goal, "us", 1.0, False),
        Row(f"project() of {name}, call", whole, goal, "us", None, False),
    ]


def _turns() -> float:
    """Microseconds of a thousand turns of a loop."""
    begun, total = time.perf_counter(), 0
    for k in range(1000):
        total += k
    return (time.perf_counter() - begun) * 1e6


def resident_calls() -> list[Row]:
    """All tiles on primary; few and many in turns, each selection again and again, and each only once."""
    primary = sw.CUDA(EXPERTS * 64) if torch.cuda.is_available() else sw.CPU(EXPERTS * 64)
    carrier = TiledEvictable(primary, sw.CPU(0), (EXPERTS, 1, 1), (1, 8, 8))
    tensor = carrier.full_tensor()
    counts = 8, 32
    known = {n: [choose([(i * 7 + k * 13) % EXPERTS for i in range(n)]) for k in range(40)] for n in counts}
    rng, spent = random.Random(1), {(n, kind): [] for n in counts for kind in ("resident", "never seen")}
    loops: list[float] = []
    with Elsewhere() as elsewhere:
        for turn in range(30):
            for count, selections in known.items():
                # The first turns fill caches, of torch and of the carrier.
                kept = spent[count, "resident"] if turn >= 10 else []
                kept += [_spent(carrier, tensor, selection, elsewhere) for selection in selections]
            loops.append(_turns())
        for _ in range(400):
            for count in counts:
                new = choose(rng.sample(range(EXPERTS), count))
                spent[count, "never seen"].append(_spent(carrier, tensor, new, elsewhere))
            loops.append(_turns())
    found = [row for (n, kind), calls in spent.items() for row in _rows(f"{n} {kind} tiles", calls, CALL)]
    return [*found, Row("1000 turns of a loop", statistics.median(loops), CALL, "us", None, False)]


def missing_calls() -> list[Row]:
    """Tiles of 256 KiB in page-locked memory, none next to another, that are promoted on the way."""
    carrier, tensor = weights("secondary", 64, EXPERTS)
    found, loops = [], []
    with Elsewhere() as elsewhere:
        for runs in (1, FREE, 32):
            calls = []
            for k in range(60):
                carrier.evict(carrier.primary_tiles)
                selection = choose([(2 * i + k) % EXPERTS for i in range(runs)])
                calls.append(_spent(carrier, tensor, selection, elsewhere))
                loops.append(_turns())
            found += _rows(f"{runs} missing runs", calls[10:], CALL + RUN * max(0, runs - FREE))
    carrier.release()
    return [*found, Row("1000 turns of a loop", statistics.median(loops), CALL, "us", None, False)]
