"""Row, pointwise and matmul kernels beside torch eager and torch.compile, as fractions of the copy rate.

    python benchmarks/kernels.py                 every row, as a Markdown table
    python benchmarks/kernels.py --only softmax  rows whose name holds a word (repeatable)

Needs an NVIDIA GPU. All contenders of a row run in one process on the same random inputs, each in a CUDA graph
that works through enough copies of its operands to defeat the L2 cache; rounds are interleaved and the median
counts. Bytes are those that the function must read and write.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf

ROUNDS = 5
FOOTPRINT = 600 * 2**20


@dataclass(frozen=True)
class Row:
    """One line of the table: a program, its torch form, shapes of inputs, bytes moved and operations."""

    name: str
    program: Any
    torch_form: Callable[..., torch.Tensor]
    inputs: tuple[tuple[int, ...], ...]
    output: tuple[int, ...]
    flops: float = 0.0

    @property
    def bytes(self) -> int:
        """Bytes that must be read and written."""
        return 2 * sum(_size(shape) for shape in (*self.inputs, self.output))


def _size(shape: tuple[int, ...]) -> int:
    total = 1
    for extent in shape:
        total *= extent
    return total


def rms_norm(m: int, n: int) -> Row:
    @func
    def rms(x: Tensor[(m, n), "bf16"], w: Tensor[(n,), "bf16"]) -> Tensor[(m, n), "bf16"]:
        return tf.rms_norm(x, w, eps=1e-6)

    def form(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.rms_norm(x, (n,), w, 1e-6)

    return Row(f"rmsnorm {m}x{n}", rms, form, ((m, n), (n,)), (m, n))


def layer_norm(m: int, n: int) -> Row:
    @func
    def norm(
        x: Tensor[(m, n), "bf16"], w: Tensor[(n,), "bf16"], b: Tensor[(n,), "bf16"]
    ) -> Tensor[(m, n), "bf16"]:
        return tf.layer_norm(x, w, b, axis=-1, eps=1e-5)

    def form(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.layer_norm(x, (n,), w, b, 1e-5)

    return Row(f"layer_norm {m}x{n}", norm, form, ((m, n), (n,), (n,)), (m, n))


def softmax(m: int, n: int) -> Row:
    @func
    def soft(x: Tensor[(m, n), "bf16"]) -> Tensor[(m, n), "bf16"]:
        return tf.softmax(x, axis=-1)

    return Row(f"softmax {m}x{n}", soft, lambda x: torch.softmax(x, -1), ((m, n),), (m, n))


def silu_mul(m: int, n: int) -> Row:
    @func
    def gated(g: Tensor[(m, n), "bf16"], u: Tensor[(m, n), "bf16"]) -> Tensor[(m, n), "bf16"]:
        return tf.silu(g) * u

    return Row(
        f"silu(g)*u {m}x{n}", gated, lambda g, u: torch.nn.functional.silu(g) * u, ((m, n), (m, n)), (m, n)
    )


def linear(m: int, n: int, k: int) -> Row:
    @func
    def product(x: Tensor[(m, k), "bf16"], w: Tensor[(n, k), "bf16"]) -> Tensor[(m, n), "bf16"]:
        return tf.matmul(x, tf.transpose(w, (1, 0)))

    kind = "GEMV" if m == 1 else "GEMM"
    return Row(
        f"{kind} {m}x{n}x{k}", product, torch.nn.functional.linear, ((m, k), (n, k)), (m, n), 2.0 * m * n * k
    )


SHAPES = ((32768, 4096), (8192, 32768), (131072, 128), (16384, 2880))


def rows() -> list[Row]:
    """Every row of the table."""
    return [
        *(make(m, n) for make in (rms_norm, softmax, layer_norm) for m, n in SHAPES),
        silu_mul(16384, 14336),
        *(linear(1, n, k) for n, k in ((14336, 4096), (6144, 2048), (151936, 2048))),
        *(linear(*shape) for shape in ((4096, 4096, 4096), (512, 4096, 14336), (8192, 8192, 8192))),
    ]


def graph_of(step: Callable[[int], object], copies: int) -> Callable[[], float]:
    """A CUDA graph of one step per copy; calling gives the seconds of one step."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for i in range(copies):
            step(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(copies):
            step(i)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    def seconds() -> float:
        graph.replay()
        begin.record()
        for _ in range(3):
            graph.replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 1e3 / 3 / copies

    return seconds


def interleaved(contenders: dict[str, Callable[[], float]]) -> dict[str, float]:
    """The median of what each contender gives, in rounds in which all take turns."""
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, seconds in contenders.items():
            times[name].append(seconds())
    return {name: statistics.median(values) for name, values in times.items()}


def copy_rate() -> float:
    """Bytes per second of a device-to-device copy, read plus written: the median of runs of ten copies of 1 GiB,
    after enough of them that the clocks have settled."""
    source = torch.randn(2**28, device="cuda")
    target = torch.empty_like(source)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times: list[float] = []
    for _ in range(3 + ROUNDS):
        begin.record()
        for _ in range(10):
            target.copy_(source)
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 1e3 / 10)
    return 2 * source.nbytes / statistics.median(times[3:])


def measure(row: Row) -> dict[str, float]:
    """Seconds per call of every contender; ours is checked against torch first."""
    copies = max(1, min(64, -(-FOOTPRINT // row.bytes)))
    inputs = [
        [torch.randn(s, device="cuda", dtype=torch.bfloat16) for s in row.inputs] for _ in range(copies)
    ]
    outputs = [torch.empty(row.output, device="cuda", dtype=torch.bfloat16) for _ in range(copies)]
    ours = jit(row.program, target="cuda")
    compiled = torch.compile(row.torch_form, dynamic=False)
    ours(*inputs[0], outputs[0])
    want = row.torch_form(*inputs[0]).float()
    error = (outputs[0].float() - want).abs().max().item() / max(want.abs().max().item(), 1e-9)
    assert error < 2e-2, f"{row.name}: differs from torch by {error:.3g} of the largest value"

    def eager(i: int) -> None:
        row.torch_form(*inputs[i])

    def through_compiler(i: int) -> None:
        compiled(*inputs[i])

    contenders = {
        "ours": graph_of(lambda i: ours(*inputs[i], outputs[i]), copies),
        "eager": graph_of(eager, copies),
        "torch.compile": graph_of(through_compiler, copies),
    }
    return interleaved(contenders)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Kernels beside torch, as fractions of the copy rate.")
    parser.add_argument("--only", action="append", default=[], help="rows whose name holds this word")
    chosen = parser.parse_args().only
    properties = torch.cuda.get_device_properties(0)
    rate = copy_rate()
    print(f"{properties.name}, torch {torch.__version__}, copy {rate / 1e9:.0f} GB/s", flush=True)
    print("| kernel (bf16) | ours | eager | torch.compile | ours / torch.compile |")
    print("|---|---|---|---|---|")
    for row in rows():
        if chosen and not any(word in row.name for word in chosen):
            continue
        try:
            times = measure(row)
        except Exception as error:  # a row that fails must not hide the others
            print(f"| {row.name} | failed: {str(error)[:160]!r} | | | |", flush=True)
            continue
        if row.flops and row.inputs[0][0] > 1:
            cells = [f"{row.flops / t / 1e12:.0f} TFLOP/s" for t in times.values()]
        else:
            cells = [f"{row.bytes / t / rate:.3f}" for t in times.values()]
        ratio = times["torch.compile"] / times["ours"]
        print(f"| {row.name} | {' | '.join(cells)} | {ratio:.3f} |", flush=True)
        torch.compiler.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
