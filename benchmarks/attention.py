"""Attention of many queries beside torch's scaled_dot_product_attention.

    python benchmarks/attention.py                 every row, as a Markdown table
    python benchmarks/attention.py --only 4096     rows whose name holds a word (repeatable)

Needs an NVIDIA GPU. Both contenders of a row run in one process on the same random inputs, each in a CUDA graph;
rounds are interleaved and the median counts. Ours is checked against the formula in float32 first. Operations count
what a causal mask leaves: half of the products where queries and keys are as many.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
from kernels import graph_of, interleaved

from tilefoundry import func, jit
from tilefoundry.dsl import Tensor, tf

COPIES = 4


@dataclass(frozen=True)
class Row:
    """Extents of one line of the table: ``length`` queries and as many keys."""

    batch: int
    heads: int
    shared: int
    length: int
    dim: int
    causal: bool = True

    @property
    def name(self) -> str:
        """As the table has it."""
        heads = f"{self.heads}/{self.shared}" if self.heads != self.shared else f"{self.heads}"
        return f"{self.batch}x{heads}x{self.length}x{self.dim}{'' if self.causal else ', every key'}"

    @property
    def flops(self) -> float:
        """Operations of both products."""
        return 4.0 * self.batch * self.heads * self.length**2 * self.dim / (2 if self.causal else 1)


ROWS = (
    Row(1, 16, 8, 2048, 128),
    Row(2, 32, 8, 4096, 128),
    Row(2, 32, 8, 4096, 128, causal=False),
    Row(4, 16, 16, 1024, 64),
    Row(4, 16, 16, 1024, 64, causal=False),
    Row(1, 16, 8, 512, 128),
    Row(8, 12, 12, 128, 64, causal=False),
)


def measure(row: Row) -> dict[str, float]:
    """Seconds per call of both contenders.

    Raises:
        AssertionError: ours is further from the formula than rounding explains.
    """
    b, h, g, s, d, causal = row.batch, row.heads, row.shared, row.length, row.dim, row.causal

    @func
    def program(
        q: Tensor[(b, h, s, d), "bf16"], k: Tensor[(b, g, s, d), "bf16"], v: Tensor[(b, g, s, d), "bf16"]
    ) -> Tensor[(b, h, s, d), "bf16"]:
        return tf.attention(q, k, v, causal=causal)

    ours = jit(program, target="cuda")
    inputs = [
        [torch.randn(b, n, s, d, device="cuda", dtype=torch.bfloat16) for n in (h, g, g)]
        for _ in range(COPIES)
    ]
    outputs = [torch.empty(b, h, s, d, device="cuda", dtype=torch.bfloat16) for _ in range(COPIES)]
    ours(*inputs[0], outputs[0])
    check(row, inputs[0], outputs[0])

    def eager(i: int) -> None:
        attend = torch.nn.functional.scaled_dot_product_attention
        attend(*inputs[i], is_causal=causal, enable_gqa=h != g)

    contenders = {
        "ours": graph_of(lambda i: ours(*inputs[i], outputs[i]), COPIES),
        "torch": graph_of(eager, COPIES),
    }
    return interleaved(contenders)


def check(row: Row, inputs: list[torch.Tensor], made: torch.Tensor) -> None:
    """Hold the last batch row's last head against the formula."""
    q, k, v = (x[-1, -1].double() for x in inputs)
    scores = q @ k.T * row.dim**-0.5
    if row.causal:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    torch.testing.assert_close(made[-1, -1].double(), torch.softmax(scores, -1) @ v, rtol=2**-8, atol=1e-5)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description="Attention beside torch.")
    parser.add_argument("--only", action="append", default=[], help="rows whose name holds this word")
    chosen = parser.parse_args().only
    print(f"{torch.cuda.get_device_properties(0).name}, torch {torch.__version__}", flush=True)
    print("| batch x heads x length x dim, bf16 | ours | torch | ours, TFLOP/s | time over torch's |")
    print("|---|---|---|---|---|")
    for row in ROWS:
        if chosen and not any(word in row.name for word in chosen):
            continue
        times = measure(row)
        ours, torchs = times["ours"], times["torch"]
        print(
            f"| {row.name} | {ours * 1e6:.1f} us | {torchs * 1e6:.1f} us | {row.flops / ours / 1e12:.0f} | "
            f"{ours / torchs:.2f} |",
            flush=True,
        )
        torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
