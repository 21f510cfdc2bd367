"""Direct operations on carriers whose primary holds an eighth of the grid: the rest of the tiles stream past it."""

from __future__ import annotations

import os
import tempfile

import torch
from carriers_rows import Row, in_turns, timed, weights

import strideweave as sw
from strideweave.carriers.tiled_evictable import TiledEvictable
from strideweave.carriers.tiled_evictable.tensors import flat_values


def streamed_from_file() -> list[Row]:
    """A sum over tiles in a file against reading each with pread and adding it up, page cache warm."""
    count, slots = 64, 1 << 20
    with tempfile.NamedTemporaryFile() as file, sw.no_grad():
        file.write(torch.randn(count * slots).numpy().tobytes())
        file.flush()
        secondary = sw.FileBacked(file.name, mutable=False)
        carrier = TiledEvictable(sw.CPU(), secondary, (count, 1), (1, slots), primary_capacity=count // 8)
        tensor = carrier.full_tensor(carrier.row_major_layout())
        fd = os.open(file.name, os.O_RDONLY)
        buffer = torch.empty(slots)
        into = memoryview(buffer.numpy()).cast("B")

        def plain() -> None:
            for k in range(count):
                os.preadv(fd, [into], 4 * k * slots)
                buffer.sum()

        mine, theirs = in_turns(
            lambda: timed(lambda: sw.reduce_sum(tensor, "a b -> a")), lambda: timed(plain), 9
        )
        os.close(fd)
    size = 4 * count * slots / 1e9
    return [Row("sum over a file, 64 tiles of 4 MiB", size / mine, size / theirs, "GB/s", None, True)]


def streamed_to_device() -> list[Row]:
    """Operations over page-locked memory against one copy of the tiles that are not on the device."""
    rows = []
    for height in (256, 1024, 4096):
        # Tiles of 1, 4 and 16 MiB.
        carrier, tensor = weights("secondary", height, 16)
        nbytes = tensor.size() * 2
        source = flat_values(carrier._tiers[1])[: tensor.size() * 7 // 8]
        target = torch.empty_like(source, device="cuda")
        calls = {
            "sum": lambda tensor=tensor: sw.reduce_sum(tensor, "a b c -> a"),
            "relu": lambda tensor=tensor: sw.relu(tensor),
        }

        def floor(target=target, source=source) -> None:
            target.copy_(source, non_blocking=True)
            torch.cuda.synchronize()

        for name, call in calls.items():
            with sw.no_grad():
                mine, theirs = in_turns(
                    lambda call=call: timed(lambda: (call(), torch.cuda.synchronize())),
                    lambda floor=floor: timed(floor),
                    7,
                )
            size = nbytes * 7 / 8 / 1e9
            what = f"{name}, tiles of {nbytes >> 27} MiB, an eighth on the device"
            rows.append(Row(what, size / mine, size / theirs, "GB/s", None, True))
        carrier.release()
    return rows
