"""Movement between carriers against the plain way to do the same.

    python benchmarks/carriers.py [--sizes 1 16 256 1024] [--repeat 7] [--json out.json]

Each line gives GB/s of ``move``, GB/s of the floor, and their ratio; medians over interleaved repeats in one
process. Exit status 1 if a ratio is below its goal.

Floors: CPU to CPU, one ctypes memmove; file to CPU, a loop of preadv in 64 MiB pieces into fresh memory (the
page cache is warm for both); device rows, one non-blocking torch copy of pinned memory and its event.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

import strideweave as sw

GOAL = 0.9


@dataclass
class Row:
    """One comparison at one size."""

    name: str
    mib: int
    ours: float
    floor: float

    @property
    def ratio(self) -> float:
        """Ours over the floor."""
        return self.ours / self.floor


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def compare(
    name: str, nbytes: int, ours: Callable[[], object], floor: Callable[[], object], repeat: int
) -> Row:
    """Medians of both, taken in turns."""
    ours(), floor()
    mine_times, their_times = [], []
    for k in range(repeat):
        # Whoever comes second finds the source in the cache, so the order alternates.
        turns = [(ours, mine_times), (floor, their_times)]
        for work, times in turns if k % 2 else turns[::-1]:
            times.append(timed(work))
    mine, theirs = statistics.median(mine_times), statistics.median(their_times)
    return Row(name, nbytes >> 20, nbytes / mine / 1e9, nbytes / theirs / 1e9)


def cpu_to_cpu(nbytes: int, repeat: int) -> Row:
    """Between two existing carriers."""
    source = sw.from_torch(torch.randint(0, 255, (nbytes,), dtype=torch.uint8))
    target, plain = (sw.CPU(nbytes, dtype=sw.UInt8) for _ in range(2))
    origin, goal = source.carrier.host_address(), plain.host_address()
    return compare(
        "cpu -> cpu",
        nbytes,
        lambda: sw.move(source, target),
        lambda: ctypes.memmove(goal, origin, nbytes),
        repeat,
    )


def file_to_cpu(nbytes: int, repeat: int, folder: str) -> Row:
    """From a file in the page cache into fresh memory."""
    path = os.path.join(folder, "data.bin")
    with open(path, "wb") as file:
        for _ in range(nbytes >> 20):
            file.write(os.urandom(1 << 20))
    carrier = sw.FileBacked(path, mutable=False, dtype=sw.UInt8)
    source = sw.Tensor(carrier, 0, sw.Layout((nbytes,)))
    fd = os.open(path, os.O_RDONLY)

    def plain() -> None:
        memory = torch.empty(nbytes, dtype=torch.uint8)
        view = memoryview(memory.numpy())
        done = 0
        while done < nbytes:
            done += os.preadv(fd, [view[done : done + (64 << 20)]], done)

    try:
        return compare(
            "file -> cpu", nbytes, lambda: sw.move(source, sw.CPU(0, dtype=sw.UInt8)), plain, repeat
        )
    finally:
        os.close(fd)


def device_rows(nbytes: int, repeat: int) -> list[Row]:
    """Pinned and pageable memory to the device and back."""
    host = sw.CPU(nbytes, dtype=sw.UInt8, pinned=True, empty=True)
    device = sw.CUDA(nbytes, dtype=sw.UInt8, empty=True)
    loose = sw.CPU(nbytes, dtype=sw.UInt8)
    layout = sw.Layout((nbytes,))
    pinned, remote, pageable = (sw.Tensor(c, 0, layout) for c in (host, device, loose))

    def copy(target: sw.CPU | sw.CUDA, source: sw.CPU | sw.CUDA) -> None:
        target.flat().copy_(source.flat(), non_blocking=True)
        torch.cuda.current_stream().synchronize()

    return [
        compare(
            "pinned -> cuda", nbytes, lambda: sw.move(pinned, device), lambda: copy(device, host), repeat
        ),
        compare("cuda -> pinned", nbytes, lambda: sw.move(remote, host), lambda: copy(host, device), repeat),
        compare(
            "pageable -> cuda", nbytes, lambda: sw.move(pageable, device), lambda: copy(device, loose), repeat
        ),
        compare(
            "cuda -> pageable", nbytes, lambda: sw.move(remote, loose), lambda: copy(loose, device), repeat
        ),
    ]


def main() -> int:
    """Run, print, compare with the goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 16, 256, 1024], metavar="MiB")
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument("--json", help="write the rows to this file too")
    args = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for mib in args.sizes:
            rows += [cpu_to_cpu(mib << 20, args.repeat), file_to_cpu(mib << 20, args.repeat, folder)]
            if torch.cuda.is_available():
                rows += device_rows(mib << 20, args.repeat)
    print(f"{'what':18} {'MiB':>5} {'ours GB/s':>10} {'floor GB/s':>10} {'ratio':>6}")
    for row in rows:
        mark = "" if row.ratio >= GOAL else f"  below {GOAL}"
        print(f"{row.name:18} {row.mib:5} {row.ours:10.2f} {row.floor:10.2f} {row.ratio:6.2f}{mark}")
    if args.json:
        with open(args.json, "w") as file:
            json.dump([asdict(r) | {"ratio": r.ratio} for r in rows], file, indent=1)
    return 0 if all(r.ratio >= GOAL for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
