"""What passes from kernel to kernel. Oracle: bytes counted by hand, and the evaluator."""

from __future__ import annotations

import pytest
import torch

from tilefoundry import CudaTarget, evaluate, func
from tilefoundry.codegen import explain
from tilefoundry.dsl import DimVar, Tensor, tf

from .emulating import emulate

CHIP = CudaTarget("nvidia.h200_sxm")
N = DimVar("N", 1, 4097)


@func
def normed(
    r: Tensor[(N, 96), "bf16"],
    x: Tensor[(N, 64), "bf16"],
    w: Tensor[(64, 96), "bf16"],
    g: Tensor[(96,), "bf16"],
) -> tuple[Tensor[(N, 96), "bf16"], Tensor[(N, 96), "bf16"]]:
    h = r + x @ w
    return h, tf.rms_norm(h, g, eps=1e-6)


@func
def scores(x: Tensor[(N, 64), "bf16"], w: Tensor[(64, 96), "bf16"]) -> Tensor[(N, 96), "bf16"]:
    return tf.softmax(x @ w, axis=-1)


@func
def squares(x: Tensor[(N, 64), "f32"], w: Tensor[(64, 96), "f32"]) -> Tensor[(N, 1), "f32"]:
    h = x @ w
    return tf.reduce(h * h, axes=(1,))


@pytest.mark.parametrize(("program", "row"), [(normed, 96 * 2), (scores, 96 * 2), (squares, 96 * 4)])
def test_a_product_passes_its_rows_once_and_as_narrow_as_they_are(program, row):
    first, second = explain(program, target=CHIP).kernels
    assert str(first.writes) == f"N * {row}", first
    assert str(second.reads).startswith(f"N * {row}"), second


@pytest.mark.parametrize("program", [normed, scores, squares])
def test_values(program):
    generator = torch.Generator().manual_seed(7)
    shapes = [(5, 96), (5, 64), (64, 96), (96,)] if program is normed else [(5, 64), (64, 96)]
    kind = torch.float32 if program is squares else torch.bfloat16
    inputs = [torch.randn(s, generator=generator).to(kind) for s in shapes]
    got, wanted = emulate(program)(*inputs), evaluate(program, *inputs)
    both = zip(got, wanted, strict=True) if program is normed else [(got, wanted)]
    for mine, theirs in both:
        torch.testing.assert_close(mine.float(), theirs.float(), rtol=2**-6, atol=2**-6)
