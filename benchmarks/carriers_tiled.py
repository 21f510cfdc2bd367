"""Tiled carriers against the plain way to move or gather the same bytes.

    python benchmarks/carriers_tiled.py [--json out.json] [--only file overhead promotion ...]

Each line names what was measured, ours, the peer or floor, and their ratio with its goal. Ratios are medians over
repeats taken in turns in one process; data are random, selections rotate over more bytes than caches hold. Without a
GPU only the host sections run. Exit status 1 if a ratio misses its goal.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict

import torch
from carriers_calls import missing_calls, resident_calls
from carriers_operations import streamed_from_file, streamed_to_device
from carriers_rows import COLUMNS, EXPERTS, ROWS, Row, choose, in_turns, on_device, tiles, timed, weights

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable, TileSelection
from strideweave.carriers.tiled_evictable.construction import like
from strideweave.carriers.tiled_evictable.gather import spread
from strideweave.carriers.tiled_evictable.gradients import compact_values
from strideweave.carriers.tiled_evictable.packing import ORDERS, Order, packing
from strideweave.carriers.tiled_evictable.tensors import flat_values
from strideweave.kernels import use
from strideweave.movement.retirement import retirement

# --- host ------------------------------------------------------------------------------------------------


def file_promotion() -> list[Row]:
    """Promotion from a file into host memory against a plain pread loop, page cache warm."""
    count, nbytes = 64, 4 << 20
    with tempfile.NamedTemporaryFile() as file:
        file.write(os.urandom(1 << 20) * (count * nbytes >> 20))
        file.flush()
        secondary = sw.FileBacked(file.name, mutable=False, dtype=sw.UInt8)
        carrier = TiledEvictable(
            sw.CPU(0, dtype=sw.UInt8), secondary, (count, 1, 1), (1, 1, nbytes), primary_capacity=count
        )
        every = tiles(range(count))
        into = memoryview(bytearray(nbytes * count))
        fd = os.open(file.name, os.O_RDONLY)

        def ours() -> float:
            carrier.evict(every)
            return timed(lambda: carrier.promote(every))

        def plain() -> None:
            for k in range(count):
                os.preadv(fd, [into[k * nbytes : (k + 1) * nbytes]], k * nbytes)

        mine, theirs = in_turns(ours, lambda: timed(plain), 9)
        os.close(fd)
    size = count * nbytes / 1e9
    return [Row("file to host, 64 tiles of 4 MiB", size / mine, size / theirs, "GB/s", 0.9, True)]


# --- device ----------------------------------------------------------------------------------------------


def promotion() -> list[Row]:
    """Pinned host to device by promotion, against one non-blocking copy of the same bytes."""
    rows = []
    for height in (1024, 4096):
        carrier, _ = weights("secondary", height, 64)
        nbytes = height * COLUMNS * 2
        source = flat_values(carrier._tiers[1])[: 64 * height * COLUMNS]
        target = torch.empty_like(source, device="cuda")

        def floor(target=target, source=source) -> None:
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize()

        for name, codes in (("in a row", range(64)), ("scattered", range(0, EXPERTS, 2))):
            some = tiles(codes)

            def ours(carrier=carrier, some=some) -> float:
                carrier.evict(some)
                return timed(lambda: carrier.promote(some))

            mine, theirs = in_turns(ours, lambda floor=floor: timed(floor), 9)
            size = 64 * nbytes / 1e9
            rows.append(
                Row(
                    f"promotion, 64 tiles of {nbytes >> 20} MiB {name}",
                    size / mine,
                    size / theirs,
                    "GB/s",
                    0.9,
                    True,
                )
            )
        carrier.release()
    return rows


def pageable() -> list[Row]:
    """The same from memory that nobody page-locked: the first time, and again."""
    size, codes = 128 << 20, range(64)
    secondary = sw.CPU(size, dtype=sw.BFloat16, empty=True)
    secondary.flat().view(torch.int16).random_(-(1 << 14), 1 << 14)
    secondary.pin_lazily()
    carrier = TiledEvictable(
        sw.CUDA(0, dtype=sw.BFloat16), secondary, (64, 1, 1), (1, 1024, COLUMNS), primary_capacity=64
    )
    source = flat_values(secondary).pin_memory()
    target = torch.empty_like(source, device="cuda")

    def floor() -> float:
        return timed(lambda: (target.copy_(source, non_blocking=True), torch.cuda.synchronize()))

    def ours() -> float:
        carrier.evict(tiles(codes))
        return timed(lambda: carrier.promote(tiles(codes)))

    floor()
    first = ours()
    mine, theirs = in_turns(ours, floor, 7)
    gigabytes = size * 2 / 1e9
    return [
        Row(f"promotion from pageable memory, {when}", gigabytes / t, gigabytes / theirs, "GB/s", None, True)
        for when, t in (("first time", first), ("again", mine))
    ]


def resident() -> list[Row]:
    """All-resident projection against index_select, and against index_select and the permuting copy."""
    carrier, tensor = weights("primary")
    full = flat_values(carrier._tiers[0]).view(EXPERTS, ROWS, COLUMNS)
    rows = []
    for count in (8, 32):
        chosen = [choose([(i * 5 + k * 11) % EXPERTS for i in range(count)]) for k in range(16)]
        indices = [torch.tensor(s.per_axis[0], device="cuda") for s in chosen]
        turn = [0]

        def step(turn=turn) -> int:
            turn[0] += 1
            return turn[0] % 16

        for order in ORDERS[::-1]:
            out = torch.empty(count * ROWS * COLUMNS, dtype=torch.bfloat16, device="cuda")
            # Dense, first axis fastest: the expert varies fastest.
            permuted = out.view(COLUMNS, ROWS, count).permute(2, 1, 0)

            def ours(order: Order = order, chosen=chosen) -> object:
                return carrier.project(tensor, chosen[step()], order=order).on_stream()

            def peer(order=order, indices=indices, permuted=permuted) -> object:
                picked = torch.index_select(full, 0, indices[step()])
                return picked if order == "tile" else permuted.copy_(picked)

            mine, theirs = in_turns(lambda f=ours: on_device(f), lambda f=peer: on_device(f), 41)
            goal = 1.05 if order == "tile" else 1.10
            rows.append(
                Row(f"resident projection, {order} order, {count} of 128", mine, theirs, "us", goal, False)
            )
    return rows


def overlap() -> list[Row]:
    """A projection of 16 missing tiles beside a chain of matrix products, against the longer of the two alone."""
    carrier, tensor = weights("secondary", capacity=32)
    square = torch.randn(4096, 4096, device="cuda").bfloat16()
    turn = [0]

    def compute() -> None:
        for _ in range(6):
            torch.mm(square, square)

    def missing() -> TileSelection:
        turn[0] += 1
        carrier.evict(carrier.primary_tiles)
        return choose([(i + 16 * turn[0]) % EXPERTS for i in range(16)])

    def copy_alone() -> float:
        selection = missing()
        return timed(
            lambda: (carrier.project(tensor, selection, order="tile").wait(), torch.cuda.synchronize())
        )

    def compute_alone() -> float:
        return timed(lambda: (compute(), torch.cuda.synchronize()))

    def both() -> float:
        selection = missing()

        def work() -> None:
            handle = carrier.project(tensor, selection, order="tile")
            compute()
            handle.wait()
            torch.cuda.synchronize()

        return timed(work)

    for part in (copy_alone, compute_alone, both):
        part()
    measured = [(both(), max(copy_alone(), compute_alone())) for _ in range(15)]
    mine, theirs = (statistics.median(s) * 1e3 for s in zip(*measured, strict=True))
    return [Row("projection beside compute", mine, theirs, "ms", 1.10, False)]


def scatter_add() -> list[Row]:
    """The device's work for the first contribution to a gradient, against index_add_ into zeros that exist already."""
    carrier, tensor = weights("primary")
    rows = []
    for count in (8, 32):
        codes = [(i * 5) % EXPERTS for i in range(count)]
        compact = carrier.project(tensor, choose(codes)).wait()
        cotangent = torch.randn(compact.size(), device="cuda").bfloat16()
        gradient = sw.Tensor(sw.from_torch(cotangent).carrier, 0, compact.layout)
        dense = torch.zeros(EXPERTS, ROWS, COLUMNS, dtype=torch.bfloat16, device="cuda")
        index = torch.tensor(codes, device="cuda")
        view = cotangent.view(COLUMNS, ROWS, count).permute(2, 1, 0)

        fresh = like(carrier._core, "zero")
        fresh.grow(count, 0)
        slots = [(k, fresh.take_primary()) for k in range(count)]
        inside = carrier._footprint(tensor.layout, 0, "benchmark")
        form = packing(inside, carrier.geometry, (count, 1, 1), "canonical")
        values = compact_values(fresh, gradient)

        def ours(fresh=fresh, values=values, form=form, slots=slots) -> None:
            spread(fresh, values(), form, slots)

        def peer(dense=dense, index=index, view=view) -> None:
            dense.index_add_(0, index, view)

        mine, theirs = in_turns(lambda f=ours: on_device(f), lambda f=peer: on_device(f), 21)
        rows.append(Row(f"first scatter-add of {count} tiles", mine, theirs, "us", 0.5, False))
    return rows


def memory() -> list[Row]:
    """Host memory of the process with a carrier in use, over its payload: page-locked by torch, and piece by piece.

    [128, 768, 2048] bf16, which is no power of two: torch rounds page-locked memory up to one.
    """
    _use_memory("pinned", 64)
    rows = []
    for name, how in (("its own, locked as it is used", "lazy"), ("CPU(pinned=True)", "pinned")):
        gc.collect()
        # Memory that was dropped is given back by a thread of its own.
        retirement().settle(30)
        # What torch keeps of page-locked memory that was given back would serve again, and count for nothing.
        torch._C._host_emptyCache()
        before = _resident_bytes()
        kept = _use_memory(how, ROWS)
        taken = _resident_bytes() - before
        payload = EXPERTS * ROWS * COLUMNS * 2
        rows.append(Row(f"host memory over payload, {name}", taken / 1e6, payload / 1e6, "MB", 1.05, False))
        del kept
    return rows


def _use_memory(how: str, height: int) -> TiledEvictable:
    """A carrier whose tiles have all been projected."""
    carrier, tensor = weights("secondary", height, 16, pinned=how == "pinned")
    for k in range(0, EXPERTS, 16):
        carrier.project(tensor, choose(range(k, k + 16)), order="tile").wait()
    return carrier


def _resident_bytes() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


SECTIONS: dict[str, tuple[Callable[[], list[Row]], bool]] = {
    "file": (file_promotion, False),
    "file_operations": (streamed_from_file, False),
    "overhead": (resident_calls, False),
    "missing": (missing_calls, True),
    "memory": (memory, True),
    "promotion": (promotion, True),
    "pageable": (pageable, True),
    "resident": (resident, True),
    "overlap": (overlap, True),
    "scatter": (scatter_add, True),
    "operations": (streamed_to_device, True),
}


def main() -> int:
    """Run, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=SECTIONS, default=list(SECTIONS))
    parser.add_argument("--json")
    parser.add_argument("--torch", action="store_true", help="permuted copies by torch, not by a kernel")
    options = parser.parse_args()
    if options.torch:
        use(None)
    rows: list[Row] = []
    for name in options.only:
        section, device = SECTIONS[name]
        if device and not torch.cuda.is_available():
            continue
        try:
            found = section()
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {error}", flush=True)
            found = [Row(f"{name} failed", 0.0, 1.0, "", 1.0, True)]
        rows += found
        for row in found:
            goal = "" if row.goal is None else f"  goal {'>=' if row.higher else '<='} {row.goal}"
            mark = "" if row.good else "  MISSED"
            print(
                f"{row.name:54} {row.ours:10.2f} {row.peer:10.2f} {row.unit:5} {row.ratio:6.3f}{goal}{mark}",
                flush=True,
            )
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{**asdict(r), "ratio": r.ratio} for r in rows], file, indent=1)
    return 0 if all(r.good for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
