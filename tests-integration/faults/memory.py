"""Prepare N weights of 4 MB and print [anonymous memory before, peak, largest weight] in bytes.

Usage: ``python memory.py FOLDER N``. The raw checkpoint is written first, weight by weight.
For 1000 weights (4 GB, 200 shards) on 2 cores: 286 MB before, 297 MB at most.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

import torch
from prepare_program import COLUMNS, ROWS, big
from safetensors.torch import save_file

from tilefoundry.runtime import SafetensorsResource

PER_SHARD = 5


def anonymous() -> int:
    """RssAnon of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no RssAnon in /proc/self/status")


def write_raw(folder: Path, count: int) -> None:
    weight_map = {}
    folder.mkdir()
    for start in range(0, count, PER_SHARD):
        name = f"model-{start:05}.safetensors"
        keys = [f"layer{i}.weight" for i in range(start, min(start + PER_SHARD, count))]
        save_file({key: torch.randn(COLUMNS, ROWS) for key in keys}, str(folder / name))
        weight_map.update(dict.fromkeys(keys, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))


class Watch(threading.Thread):
    """Samples RssAnon until told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak, self.stop = 0, threading.Event()

    def run(self) -> None:
        while not self.stop.wait(0.002):
            self.peak = max(self.peak, anonymous())


def main(folder: Path, count: int) -> None:
    torch.set_num_threads(1)
    write_raw(folder / "raw", count)
    module = big(count)
    raw = SafetensorsResource(str(folder / "raw"), device="cpu")
    # One small run first, so that library buffers count as baseline.
    big(1).prepare(raw, str(folder / "warm"))
    baseline, watch = anonymous(), Watch()
    watch.start()
    module.prepare(raw, str(folder / "out"))
    watch.stop.set()
    watch.join()
    print(json.dumps([baseline, watch.peak, ROWS * COLUMNS * 4]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
