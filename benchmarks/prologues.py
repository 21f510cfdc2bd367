"""Products that compute an operand while they read it, beside the same in two kernels, torch eager and torch.compile.

    python benchmarks/prologues.py                 every row, as a Markdown table
    python benchmarks/prologues.py --only silu     rows whose name holds a word (repeatable)
    python benchmarks/prologues.py --brief         ours in one kernel and in two alone

Needs an NVIDIA GPU. Bytes are those that the product must read and write: weights as narrow as they are stored. "two
kernels" is the same program that also returns the computed operand, so that it has to be written. Rounds of all
contenders are interleaved, each a CUDA graph over enough copies of the operands to defeat the L2 cache.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from kernels import FOOTPRINT, copy_rate, graph_of, interleaved

from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf

KINDS = {"i8": torch.int8, "bf16": torch.bfloat16, "f32": torch.float32, "fp8e4m3": torch.float8_e4m3fn}


@dataclass(frozen=True)
class Row:
    """One line: the program in one kernel and in two, its torch form, and (shape, dtype) of inputs."""

    name: str
    one: Any
    two: Any
    torch_form: Callable[..., torch.Tensor]
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    output: tuple[tuple[int, ...], str]

    @property
    def bytes(self) -> int:
        """Bytes that must be read and written."""
        return sum(torch.Size(s).numel() * KINDS[d].itemsize for s, d in (*self.inputs, self.output))


def scaled(m: int, n: int, k: int, narrow: str, wide: str) -> Row:
    """Weights [k, n] with a scale per column."""

    @func
    def one(
        x: Tensor[(m, k), wide], w: Tensor[(k, n), narrow], s: Tensor[(n,), wide]
    ) -> Tensor[(m, n), wide]:
        return x @ (tf.cast(w, wide) * s)

    @func
    def two(
        x: Tensor[(m, k), wide], w: Tensor[(k, n), narrow], s: Tensor[(n,), wide]
    ) -> tuple[Tensor[(m, n), wide], Tensor[(k, n), wide]]:
        full = tf.cast(w, wide) * s
        return x @ full, full

    def form(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return x @ (w.to(x.dtype) * s)

    inputs = (((m, k), wide), ((k, n), narrow), ((n,), wide))
    return Row(f"x @ ({narrow} * s) {m}x{n}x{k} {wide}", one, two, form, inputs, ((m, n), wide))


def scaled_rows(m: int, n: int, k: int, narrow: str, wide: str) -> Row:
    """Weights [n, k], as a linear layer has them, with a scale per output."""

    @func
    def one(
        x: Tensor[(m, k), wide], w: Tensor[(n, k), narrow], s: Tensor[(n, 1), wide]
    ) -> Tensor[(m, n), wide]:
        return x @ tf.transpose(tf.cast(w, wide) * s, (1, 0))

    @func
    def two(
        x: Tensor[(m, k), wide], w: Tensor[(n, k), narrow], s: Tensor[(n, 1), wide]
    ) -> tuple[Tensor[(m, n), wide], Tensor[(n, k), wide]]:
        full = tf.cast(w, wide) * s
        return x @ tf.transpose(full, (1, 0)), full

    def form(x: torch.Tensor, w: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, w.to(x.dtype) * s)

    inputs = (((m, k), wide), ((n, k), narrow), ((n, 1), wide))
    return Row(f"x @ ({narrow} * s).T {m}x{n}x{k} {wide}", one, two, form, inputs, ((m, n), wide))


def widened(m: int, n: int, k: int) -> Row:
    """bf16 weights [n, k] in an f32 product."""

    @func
    def one(x: Tensor[(m, k), "f32"], w: Tensor[(n, k), "bf16"]) -> Tensor[(m, n), "f32"]:
        return x @ tf.transpose(tf.cast(w, "f32"), (1, 0))

    @func
    def two(
        x: Tensor[(m, k), "f32"], w: Tensor[(n, k), "bf16"]
    ) -> tuple[Tensor[(m, n), "f32"], Tensor[(n, k), "f32"]]:
        full = tf.cast(w, "f32")
        return x @ tf.transpose(full, (1, 0)), full

    def form(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, w.float())

    return Row(
        f"x @ f32(bf16).T {m}x{n}x{k}",
        one,
        two,
        form,
        (((m, k), "f32"), ((n, k), "bf16")),
        ((m, n), "f32"),
    )


def gated(m: int, n: int, k: int) -> Row:
    """silu(g) * u before a linear layer."""

    @func
    def one(
        g: Tensor[(m, k), "bf16"], u: Tensor[(m, k), "bf16"], w: Tensor[(n, k), "bf16"]
    ) -> Tensor[(m, n), "bf16"]:
        return (tf.silu(g) * u) @ tf.transpose(w, (1, 0))

    @func
    def two(
        g: Tensor[(m, k), "bf16"], u: Tensor[(m, k), "bf16"], w: Tensor[(n, k), "bf16"]
    ) -> tuple[Tensor[(m, n), "bf16"], Tensor[(m, k), "bf16"]]:
        h = tf.silu(g) * u
        return h @ tf.transpose(w, (1, 0)), h

    def form(g: torch.Tensor, u: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(torch.nn.functional.silu(g) * u, w)

    inputs = (((m, k), "bf16"), ((m, k), "bf16"), ((n, k), "bf16"))
    return Row(f"(silu(g)*u) @ w.T {m}x{n}x{k}", one, two, form, inputs, ((m, n), "bf16"))


def rows() -> list[Row]:
    """Every row of the table."""
    return [
        *(scaled(m, n, k, "i8", "bf16") for m in (1, 8) for n, k in ((4096, 14336), (14336, 4096))),
        *(scaled_rows(m, n, k, "i8", "bf16") for m in (1, 8) for n, k in ((4096, 14336), (14336, 4096))),
        scaled(1, 14336, 4096, "i8", "f32"),
        scaled_rows(1, 14336, 4096, "i8", "f32"),
        scaled_rows(1, 14336, 4096, "fp8e4m3", "bf16"),
        *(make(m, 14336, 4096, "i8", "bf16") for m in (16, 32, 64) for make in (scaled, scaled_rows)),
        *(widened(m, 14336, 4096) for m in (1, 8)),
        *(gated(m, 4096, 14336) for m in (1, 2)),
        gated(1, 2048, 6144),
    ]


def _random(shape: tuple[int, ...], kind: str) -> torch.Tensor:
    if kind == "i8":
        return torch.randint(-64, 64, shape, device="cuda", dtype=torch.int8)
    return torch.randn(shape, device="cuda").mul_(0.25).to(KINDS[kind])


def _checked(row: Row, ours: Any, inputs: list[torch.Tensor]) -> None:
    got = ours(*inputs)
    got = (got[0] if isinstance(got, tuple) else got).double()
    want = row.torch_form(*(t if t.dtype in (torch.int8, torch.float8_e4m3fn) else t.float() for t in inputs))
    error = (got - want.double()).abs().max().item() / max(want.abs().max().item(), 1e-9)
    assert error < 2e-2, f"{row.name}: differs from torch by {error:.3g} of the largest value"


def measure(row: Row, brief: bool) -> dict[str, float]:
    """Seconds per call of every contender; ours is checked against torch first."""
    copies = max(1, min(64, -(-FOOTPRINT // row.bytes)))
    inputs = [[_random(*given) for given in row.inputs] for _ in range(copies)]
    one, two = jit(row.one, target="cuda"), jit(row.two, target="cuda")
    assert len(one.kernels) == 1 < len(two.kernels), (
        f"{row.name}: {len(one.kernels)} and {len(two.kernels)} kernels"
    )
    for ours in (one, two):
        _checked(row, ours, inputs[0])
    shape, kind = row.output
    outputs = [torch.empty(shape, device="cuda", dtype=KINDS[kind]) for _ in range(copies)]
    full = [torch.empty_like(each) for each in two(*inputs[0])[1:]]
    contenders = {
        "one kernel": graph_of(lambda i: one(*inputs[i], outputs[i]), copies),
        "two kernels": graph_of(lambda i: two(*inputs[i], outputs[i], *full), copies),
    }
    if not brief:
        compiled = torch.compile(row.torch_form, dynamic=False)
        contenders["eager"] = graph_of(lambda i: row.torch_form(*inputs[i]), copies)
        contenders["torch.compile"] = graph_of(lambda i: compiled(*inputs[i]), copies)
    return interleaved(contenders)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Products that compute an operand while they read it.")
    parser.add_argument("--only", action="append", default=[], help="rows whose name holds this word")
    parser.add_argument("--brief", action="store_true", help="leave torch out")
    options = parser.parse_args()
    rate = copy_rate()
    name = torch.cuda.get_device_properties(0).name
    print(f"{name}, torch {torch.__version__}, copy {rate / 1e9:.0f} GB/s; fractions of it", flush=True)
    heads = ["one kernel", "two kernels", *([] if options.brief else ["eager", "torch.compile"])]
    print(f"| product | {' | '.join(heads)} | us |\n|---|{'---|' * len(heads)}---|")
    for row in rows():
        if options.only and not any(word in row.name for word in options.only):
            continue
        try:
            times = measure(row, options.brief)
        except Exception as error:  # a row that fails must not hide the others
            print(f"| {row.name} | failed: {str(error)[:300]!r} |", flush=True)
            continue
        cells = [f"{row.bytes / t / rate:.3f}" for t in times.values()]
        print(f"| {row.name} | {' | '.join(cells)} | {times['one kernel'] * 1e6:.1f} |", flush=True)
        torch.compiler.reset()
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
