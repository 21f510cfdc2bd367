"""Movement between carriers against the plain way to do the same.

    python benchmarks/carriers.py [--sizes 1 16 256 1024] [--repeat 8] [--json out.json]

Each line gives GB/s of ``move``, GB/s of the floor, and their ratio; medians over interleaved repeats in one
process, of which small sizes get more. Exit status 1 if a ratio is below its goal.

Floors: CPU to CPU, one ctypes memmove; file to CPU, a loop of preadv in 64 MiB pieces (the page cache is warm for
both), either into memory that torch allocates for it, where ours may use memory again that it had, or into memory that
is there already, two buffers by turns; device rows, one non-blocking torch copy and a synchronisation of its stream.
Rows of page-locked memory also give their part of the link as it is at that size: the driver's two calls and nothing
else, with addresses and stream looked up beforehand.

Rows called "xN in flight" begin N moves between N pairs of carriers with ``move_async`` and then wait for all; their
floor makes the same N copies one after another and waits once. They show the rate that the link, or the memory,
is kept busy at; the others what one blocking call takes.
"""

from __future__ import annotations

import argparse
import ctypes
import itertools
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
    link: float = 0.0
    """GB/s of the driver's calls alone; 0 where not measured."""

    @property
    def ratio(self) -> float:
        """Ours over the floor."""
        return self.ours / self.floor


def timed(work: Callable[[], object]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


MORE = 1 << 30
"""Bytes of each side's repeats together, at least: a microsecond here or there is much for a megabyte."""


def compare(
    name: str,
    nbytes: int,
    ours: Callable[[], object],
    floor: Callable[[], object],
    repeat: int,
    link: Callable[[], object] | None = None,
) -> Row:
    """Medians of all, taken in turns."""
    works = [ours, floor, *([link] if link is not None else [])]
    for work in works:
        work()
    times: list[list[float]] = [[] for _ in works]
    for k in range(max(repeat, MORE // nbytes)):
        # Whoever comes second finds the source in the cache, so the order alternates.
        turns = list(zip(works, times, strict=True))
        for work, taken in turns if k % 2 else turns[::-1]:
            taken.append(timed(work))
    return Row(name, nbytes >> 20, *(nbytes / statistics.median(taken) / 1e9 for taken in times))


SPREAD = 256 << 20
"""Bytes over which small copies rotate, so that no cache holds the next one."""


def rotating(make: Callable[[], tuple], nbytes: int) -> Callable[[], tuple]:
    """The next of as many results of ``make`` as it takes to defeat the caches.

    Everyone who is compared takes from the same ones: memory is not all alike, and where it lies in the machine may
    make a copy a tenth quicker or slower.
    """
    # Turns alternate with period four: of two or an odd number everyone comes to all, and often enough.
    count = 2 * SPREAD // nbytes
    made = [make() for _ in range(count + 1 if count > 2 else 2)]
    turn = [0]

    def following() -> tuple:
        turn[0] += 1
        return made[turn[0] % len(made)]

    return following


def noise(nbytes: int) -> torch.Tensor:
    """Random bytes, made eight at a time."""
    return torch.randint(-(1 << 63), (1 << 63) - 1, (nbytes // 8,)).view(torch.uint8)


def cpu_to_cpu(nbytes: int, repeat: int) -> Row:
    """Between two existing carriers."""

    def pair() -> tuple[sw.Tensor, sw.CPU]:
        source = sw.from_torch(noise(nbytes))
        target = sw.CPU(nbytes, dtype=sw.UInt8, empty=True)
        # Pages come with the first write.
        target.flat().fill_(1)
        return source, target

    following = rotating(pair, nbytes)

    def ours() -> None:
        source, target = following()
        sw.move(source, target)

    def floor() -> None:
        source, target = following()
        ctypes.memmove(target.host_address(), source.carrier.host_address(), nbytes)

    return compare("cpu -> cpu", nbytes, ours, floor, repeat)


def several(
    name: str,
    nbytes: int,
    pairs: list[tuple[sw.Tensor, sw.CPU | sw.CUDA]],
    floor: Callable[[], object],
    repeat: int,
    link: Callable[[], object] | None = None,
) -> Row:
    """One move per pair, all begun before the first is waited for."""

    def ours() -> None:
        for handle in [sw.move_async(tensor, target) for tensor, target in pairs]:
            handle.wait()

    row = compare(f"{name} x{len(pairs)} in flight", nbytes * len(pairs), ours, floor, repeat, link)
    return Row(row.name, nbytes >> 20, row.ours, row.floor, row.link)


def cpu_in_flight(nbytes: int, repeat: int, count: int) -> Row:
    """Between pairs of existing carriers."""
    sources = [sw.from_torch(noise(nbytes)) for _ in range(count)]
    targets, plain = ([sw.CPU(nbytes, dtype=sw.UInt8, empty=True) for _ in range(count)] for _ in range(2))
    for carrier in (*targets, *plain):
        carrier.flat().fill_(1)
    addresses = [(p.host_address(), s.carrier.host_address()) for p, s in zip(plain, sources, strict=True)]

    def floor() -> None:
        for goal, origin in addresses:
            ctypes.memmove(goal, origin, nbytes)

    return several("cpu -> cpu", nbytes, list(zip(sources, targets, strict=True)), floor, repeat)


def device_in_flight(nbytes: int, repeat: int, count: int) -> list[Row]:
    """Between pairs of page-locked and device carriers, either way."""
    hosts = [sw.CPU(nbytes, dtype=sw.UInt8, pinned=True, empty=True) for _ in range(count)]
    devices = [sw.CUDA(nbytes, dtype=sw.UInt8, empty=True) for _ in range(count)]
    layout = sw.Layout((nbytes,))

    def rows(name: str, sources: list, targets: list) -> Row:
        flats = [(t.flat(), s.flat()) for t, s in zip(targets, sources, strict=True)]

        def floor() -> None:
            for goal, origin in flats:
                goal.copy_(origin, non_blocking=True)
            torch.cuda.current_stream().synchronize()

        pairs = [(sw.Tensor(s, 0, layout), t) for s, t in zip(sources, targets, strict=True)]
        return several(name, nbytes, pairs, floor, repeat, driver_copies(flats))

    return [rows("pinned -> cuda", hosts, devices), rows("cuda -> pinned", devices, hosts)]


def file_to_cpu(nbytes: int, repeat: int, folder: str) -> list[Row]:
    """From a file in the page cache into memory that is allocated for it, and over values that are there.

    The old values must survive a read that fails, so the floor of the latter reads into two buffers by turns."""
    path = os.path.join(folder, "data.bin")
    with open(path, "wb") as file:
        for _ in range(nbytes >> 20):
            file.write(os.urandom(1 << 20))
    carrier = sw.FileBacked(path, mutable=False, dtype=sw.UInt8)
    source = sw.Tensor(carrier, 0, sw.Layout((nbytes,)))
    fd = os.open(path, os.O_RDONLY)

    there = sw.CPU(nbytes, dtype=sw.UInt8, empty=True)
    turns = itertools.cycle([torch.ones(nbytes, dtype=torch.uint8) for _ in range(2)])

    def plain(memory: torch.Tensor) -> None:
        view = memoryview(memory.numpy())
        done = 0
        while done < nbytes:
            done += os.preadv(fd, [view[done : done + (64 << 20)]], done)

    def allocated() -> None:
        plain(torch.empty(nbytes, dtype=torch.uint8))

    def ours() -> None:
        sw.move(source, sw.CPU(0, dtype=sw.UInt8))

    try:
        return [
            compare("file -> cpu", nbytes, ours, allocated, repeat),
            compare(
                "file -> cpu, memory there",
                nbytes,
                lambda: sw.move(source, there),
                lambda: plain(next(turns)),
                repeat,
            ),
        ]
    finally:
        os.close(fd)


def driver_copies(flats: list[tuple[torch.Tensor, torch.Tensor]]) -> Callable[[], None]:
    """The copies of ``(target, source)`` pairs and one wait, as the driver's calls with nothing around them."""
    library = ctypes.CDLL("libcuda.so.1")
    copy, wait, handle = library.cuMemcpyAsync, library.cuStreamSynchronize, ctypes.c_void_p
    copy.argtypes, wait.argtypes = (handle, handle, ctypes.c_size_t, handle), (handle,)
    calls = [(target.data_ptr(), source.data_ptr(), source.numel()) for target, source in flats]
    stream = torch.cuda.current_stream().cuda_stream

    def run() -> None:
        for target, source, nbytes in calls:
            copy(target, source, nbytes, stream)
        wait(stream)

    return run


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
            "pinned -> cuda",
            nbytes,
            lambda: sw.move(pinned, device),
            lambda: copy(device, host),
            repeat,
            driver_copies([(device.flat(), host.flat())]),
        ),
        compare(
            "cuda -> pinned",
            nbytes,
            lambda: sw.move(remote, host),
            lambda: copy(host, device),
            repeat,
            driver_copies([(host.flat(), device.flat())]),
        ),
        compare(
            "pageable -> cuda", nbytes, lambda: sw.move(pageable, device), lambda: copy(device, loose), repeat
        ),
        compare(
            "cuda -> pageable", nbytes, lambda: sw.move(remote, loose), lambda: copy(loose, device), repeat
        ),
    ]


def link(direction: str) -> float:
    """GB/s of one large copy of page-locked memory: what the link gives, with nothing around it."""
    host = torch.empty(256 << 20, dtype=torch.uint8, pin_memory=True)
    far = torch.empty_like(host, device="cuda")
    target, source = (far, host) if direction == "h2d" else (host, far)

    def once() -> None:
        target.copy_(source, non_blocking=True)
        torch.cuda.current_stream().synchronize()

    once()
    return host.numel() / min(timed(once) for _ in range(8)) / 1e9


def main() -> int:
    """Run, print, compare with the goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 16, 256, 1024], metavar="MiB")
    parser.add_argument("--repeat", type=int, default=8)
    parser.add_argument(
        "--device-only", action="store_true", help="leave out the rows of host memory and files"
    )
    parser.add_argument("--json", help="write the rows to this file too")
    args = parser.parse_args()
    rows: list[Row] = []
    print(f"{'what':30} {'MiB':>5} {'ours GB/s':>10} {'floor GB/s':>10} {'ratio':>6} {'of link':>8}")

    def show(found: Row | list[Row]) -> None:
        for row in found if isinstance(found, list) else [found]:
            rows.append(row)
            of_link = f"{row.ours / row.link:8.2f}" if row.link else " " * 8
            mark = "" if row.ratio >= GOAL else f"  below {GOAL}"
            print(
                f"{row.name:30} {row.mib:5} {row.ours:10.2f} {row.floor:10.2f} {row.ratio:6.2f} {of_link}{mark}",
                flush=True,
            )

    device = torch.cuda.is_available()
    if device:
        print(f"bare link, 256 MiB: {link('h2d'):.2f} GB/s up, {link('d2h'):.2f} down", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for mib in args.sizes:
            if device:
                show(device_rows(mib << 20, args.repeat))
                if mib <= 64:
                    show(device_in_flight(mib << 20, args.repeat, 16))
            if args.device_only:
                continue
            show(cpu_to_cpu(mib << 20, args.repeat))
            show(file_to_cpu(mib << 20, args.repeat, folder))
            if mib <= 64:
                show(cpu_in_flight(mib << 20, args.repeat, 16))
    if args.json:
        with open(args.json, "w") as file:
            json.dump([asdict(r) | {"ratio": r.ratio} for r in rows], file, indent=1)
    return 0 if all(r.ratio >= GOAL for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
