"""Reading a checkpoint against the safetensors library, to the CPU and to a GPU.

    python benchmarks/loading.py [--size-mb 2048] [--tensor-mb 16] [--repeat 5] [--device cpu|cuda] [--json out.json]

GB/s with a warm page cache, medians over interleaved repeats in one process, in 1 and in 4 shards. Every way
ends with tensors in memory of their own: ``safe_open`` gives views of the file, so they are cloned, as a
loader must. Floors: to the CPU, torch's copy of the same bytes into fresh memory, which a loader has to touch for the
first time as well; to a GPU, the lower of copies from pinned memory and of copies into host memory already in use.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import safe_open
from safetensors.torch import save_file

from tilefoundry.runtime import SafetensorsResource


def write(folder: Path, shards: int, count: int, elements: int) -> list[str]:
    """A checkpoint of ``count`` tensors, and its keys."""
    folder.mkdir()
    weight_map = {}
    for shard in range(shards):
        name = f"model-{shard + 1:05}-of-{shards:05}.safetensors"
        keys = [f"w{i}" for i in range(shard, count, shards)]
        save_file({key: torch.randn(elements) for key in keys}, str(folder / name))
        weight_map.update(dict.fromkeys(keys, name))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": weight_map}))
    return sorted(weight_map)


def ours(folder: Path, keys: list[str], device: str) -> object:
    """What a loader of ours does."""
    return SafetensorsResource(str(folder), device=device).read_many(keys)


def library(folder: Path, device: str) -> object:
    """The safetensors library, tensor by tensor, into memory of its own."""
    out = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(str(path), framework="pt", device=device) as handle:
            for key in handle.keys():  # noqa: SIM118  # a handle is no mapping
                tensor = handle.get_tensor(key)
                out[key] = tensor.clone() if device == "cpu" else tensor
    return out


def timed(call: Callable[[], object], device: str) -> float:
    """Seconds until everything has arrived."""
    start = time.perf_counter()
    kept = call()
    if device == "cuda":
        torch.cuda.synchronize()
    spent = time.perf_counter() - start
    del kept
    return spent


def cases(folder: Path, keys: list[str], size: int, device: str) -> dict[str, Callable[[], object]]:
    """Name -> one run over ``size`` bytes."""
    return {
        "read_many": lambda: ours(folder, keys, device),
        f"safe_open(device={device!r})": lambda: library(folder, device),
        **(floors_to_gpu(size) if device == "cuda" else floors_to_cpu(size, size // 4 // len(keys))),
    }


def floors_to_cpu(size: int, elements: int) -> dict[str, Callable[[], object]]:
    """The copy that no reader into fresh memory can do without, in tensors of the checkpoint's size."""
    host = torch.randn(elements)
    return {"host memcpy, fresh memory": lambda: [host.clone() for _ in range(size // (4 * elements))]}


def floors_to_gpu(size: int) -> dict[str, Callable[[], object]]:
    """Both legs of the way through pinned memory, each on its own; chunk by chunk as a stager has them."""
    chunk = 256 << 20
    times = max(1, size // chunk)
    source = torch.randn(chunk // 4).view(torch.uint8)
    pinned = source.pin_memory()
    target = pinned.cuda()

    def to_device() -> None:
        for _ in range(times):
            target.copy_(pinned, non_blocking=True)

    def on_host() -> None:
        for _ in range(times):
            pinned.copy_(source)

    return {"pinned host to device": to_device, "host memcpy, pinned memory": on_host}


def main(argv: list[str]) -> int:
    """Print one table per number of shards."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size-mb", type=int, default=2048)
    parser.add_argument("--tensor-mb", type=int, default=16)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    count, elements = max(1, args.size_mb // args.tensor_mb), args.tensor_mb << 18
    size = count * elements * 4
    results = {}
    for shards in (1, 4):
        with tempfile.TemporaryDirectory() as folder:
            keys = write(Path(folder) / "c", shards, count, elements)
            runs = cases(Path(folder) / "c", keys, size, args.device)
            samples: dict[str, list[float]] = {name: [] for name in runs}
            for _ in range(args.repeat + 1):
                for name, call in runs.items():
                    samples[name].append(size / timed(call, args.device) / 1e9)
            # The first round warms the page cache and the allocators.
            results[shards] = {name: statistics.median(values[1:]) for name, values in samples.items()}
        print(f"{shards} shard(s), {size / 2**30:.2f} GiB")
        for name, value in results[shards].items():
            print(f"  {name:28} {value:8.2f} GB/s")
        floor = min(value for name, value in results[shards].items() if "host" in name)
        print(f"  {'read_many over the floor':28} {results[shards]['read_many'] / floor:8.2f} (goal 0.80)")
    if args.json:
        args.json.write_text(json.dumps({"device": args.device, "size": size, "GB/s": results}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
