"""What a call from Python costs on top of the work: twins, readings, compiled and bound modules.

    python benchmarks/runtime_overheads.py [--device cpu|cuda] [--calls 500] [--repeat 41] [--json out.json]

Microseconds a call of the calling thread's processor time; medians and minima over interleaved repeats in one process,
many and short, since other load changes the processor's speed. The work itself is eight elements.
Floors: the exported function alone, called through tvm_ffi with outputs given, and torch.mul(out=).
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch

import tilefoundry
from tilefoundry import func, module
from tilefoundry.dsl import ConstTensor, DimVar, Tensor
from tilefoundry.runtime import DictResource, runtime_func, runtime_module

N = DimVar("N", 1, 1024)
WEIGHTS = 64


@module(entry="scale")
class Scale:
    @func
    def scale(x: Tensor[(N, 8), "f32"], w: ConstTensor[(8,), "f32"]) -> Tensor[(N, 8), "f32"]:
        return x * w


@runtime_module(Scale)
class ScaleTwin:
    @runtime_func
    def scale(self, x, w):
        return x


def cases(device: str) -> dict[str, Callable[[], object]]:
    """Name -> one call."""
    x, w, out = (
        torch.ones(1, 8, device=device),
        torch.ones(8, device=device),
        torch.empty(1, 8, device=device),
    )
    source = DictResource({"w": w})
    reading, twin = Scale.load(source), ScaleTwin()
    twin.load(source)
    compiled = tilefoundry.jit(Scale, target=device)
    bound, entry = compiled.bind(reading), compiled._fn
    return {
        "exported function, outputs given": lambda: entry(x, w, out),
        "torch.mul(out=)": lambda: torch.mul(x, w, out=out),
        "torch.mul": lambda: torch.mul(x, w),
        "compiled module, outputs given": lambda: compiled(x, w, out),
        "compiled module, outputs allocated": lambda: compiled(x, w),
        "bound module, outputs given": lambda: bound(x, out),
        "bound module, outputs allocated": lambda: bound(x),
        "twin, kernel that does nothing": lambda: twin(x),
        "twin.kernel, kernel that does nothing": lambda: twin.scale(x),
        "reading (the evaluator)": lambda: reading(x),
    }


def timed(call: Callable[[], object], calls: int, device: str) -> float:
    """Microseconds a call."""
    start = time.thread_time()
    for _ in range(calls):
        call()
    if device == "cuda":
        torch.cuda.synchronize()
    return (time.thread_time() - start) / calls * 1e6


def main(argv: list[str]) -> int:
    """Print the table; the goal is a microsecond over the exported function, one and a half on a GPU."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=41)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args(argv)
    calls = cases(args.device)
    for call in calls.values():
        timed(call, 50, args.device)
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(args.repeat):
        for name, call in calls.items():
            samples[name].append(timed(call, args.calls, args.device))
    medians = {name: statistics.median(values) for name, values in samples.items()}
    for name, value in medians.items():
        print(f"{name:40} {value:8.2f} us, {min(samples[name]):8.2f} at best")
    floor, ours = (
        samples[name] for name in ("exported function, outputs given", "compiled module, outputs given")
    )
    over = statistics.median(b - a for a, b in zip(floor, ours, strict=True))
    best, goal = min(ours) - min(floor), 1.5 if args.device == "cuda" else 1.0
    print(f"{'over the exported function':40} {over:8.2f} us, {best:8.2f} at best (goal {goal})")
    if args.json:
        args.json.write_text(json.dumps({"device": args.device, "us": medians, "over": over}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
